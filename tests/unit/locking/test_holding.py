"""A block under the lock: renewed beside it, free after it, whatever way it ends."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowTaskTimeout

from airflow_provider_ragops.exceptions import LockHeldError, LockLostError
from airflow_provider_ragops.locking.holding import _keep_renewing, held
from airflow_provider_ragops.locking.lock import Lock
from airflow_provider_ragops.locking.times import LockTimes
from tests.fakes.kube import unreachable
from tests.unit.locking.locks import World


class Done:
    """Stands for the event that ends the renewal: waiting passes the fake time, and shows the holder's world."""

    def __init__(self, world: World, turns: int, between: Callable[[], None] = lambda: None) -> None:
        self.pauses: list[float] = []
        self._world, self._turns, self._between = world, turns, between

    def wait(self, seconds: float) -> bool:
        self.pauses.append(seconds)
        self._world.time.seconds += seconds
        self._between()
        return len(self.pauses) > self._turns


def keep_renewing(lock: Lock, done: Done) -> None:
    _keep_renewing(lock, done)  # type: ignore[arg-type]


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, AirflowTaskTimeout])
def test_lock_is_free_when_the_block_fails(error: type[BaseException]) -> None:
    """A8: the lock is free again whatever way the block ends, an execution timeout included, and the thread is gone."""
    world = World()

    def fail() -> None:
        with held(world.lock()):
            assert not world.record.free
            raise error("boom")

    with pytest.raises(error, match="boom"):
        fail()
    assert world.record.free
    assert "lock-renewal" not in {thread.name for thread in threading.enumerate()}


def test_timeout_in_the_wait_leaves_nothing_behind() -> None:
    """A8: an execution timeout while another one holds the lock changes nothing, and makes no request more."""
    world = World()
    first = world.lock("first")
    first.acquire()
    before, asked = world.body, []

    def time_out() -> None:
        world.kube.before = lambda verb, path: asked.append(verb)
        raise AirflowTaskTimeout("Timeout")

    world.time.on_sleep = time_out
    with pytest.raises(AirflowTaskTimeout), held(world.lock("second")):
        raise AssertionError("it was not free")
    assert world.body == before
    assert asked == []


@pytest.mark.parametrize("reply", ["on the way", "lost"])
def test_timeout_in_the_write_that_took_the_lock_frees_it(reply: str) -> None:
    """A8: the timeout strikes after the API server applied the write, before the process knows: the lock is freed."""
    world = World()

    def time_out(verb: str, path: str) -> None:
        world.kube.after = lambda verb, path: None
        raise AirflowTaskTimeout("Timeout")

    world.kube.after = time_out
    if reply == "lost":  # and the timeout strikes in the pause before the next try
        world.lose_reply()
        world.time.on_sleep = lambda: time_out("", "")
    with pytest.raises(AirflowTaskTimeout), held(world.lock()):
        raise AssertionError("the timeout came first")
    assert world.record.transitions == 1
    assert world.record.free


def test_renewal_comes_four_times_within_the_deadline() -> None:
    """L7: each renewal that succeeds is followed by the next one a quarter of the deadline later."""
    world = World()
    lock = world.lock()
    lock.acquire()
    done = Done(world, 8, lock.check)
    keep_renewing(lock, done)
    assert done.pauses == [2.5] * 9
    assert world.record.renewals == 8


@pytest.mark.parametrize("hung", range(1, 5))
def test_one_hung_request_costs_no_hold(hung: int) -> None:
    """L7: by the default times one renewal that hangs for the whole request timeout is made good in time."""
    world = World()
    lock = world.lock(times=LockTimes())
    lock.acquire()

    def hang(verb: str, path: str) -> None:
        if len(done.pauses) == hung:
            world.time.seconds += 10
            raise unreachable(path)

    world.kube.before = hang
    done = Done(world, 8, lock.check)
    keep_renewing(lock, done)
    assert lock.valid_until > world.time.clock()
    assert done.pauses[hung] == 2.0  # sooner than a quarter of the deadline


def test_renewal_stops_when_the_lock_is_lost(caplog: pytest.LogCaptureFixture) -> None:
    """L1: after a takeover the renewal ends by itself, says who has the lock, and never writes again."""
    world = World()
    lock = world.lock()
    lock.acquire()
    world.lock("other").acquire()
    done = Done(world, 8)
    keep_renewing(lock, done)
    assert len(done.pauses) == 1
    assert "lock renewal stopped" in caplog.text
    assert "other/" in caplog.text
    assert world.record.renewals == 0


def test_renewal_stops_at_the_longest_hold() -> None:
    """L14: a renewal beside a main thread that hangs stops at max_hold, and others may take over a lease later."""
    world = World()
    lock = world.lock()
    lock.acquire()
    began = world.time.clock()
    done = Done(world, 1000)
    keep_renewing(lock, done)
    assert 120 <= world.time.clock() - began < 123
    with pytest.raises(LockLostError, match="at most 120 s"):
        lock.check()
    assert world.lock("other").acquire() == 2


def test_block_is_renewed_by_a_real_thread() -> None:
    """L7: while the block runs, a thread renews; the renewal ends before the lock is freed."""
    world = World()
    quick = LockTimes(lease=1, renew_deadline=0.4, retry=0.1, wait=2)
    world.kube.timeout = 0.1
    renewed = threading.Event()

    def see(verb: str, path: str) -> None:
        if world.record.renewals >= 3:
            renewed.set()

    world.kube.after = see
    with held(world.lock(times=quick)) as lock:
        assert renewed.wait(timeout=30)
        lock.check()
    assert world.record.free


def test_held_by_another_is_not_entered() -> None:
    """L13: the block does not run where the lock was not had, and the holder keeps it."""
    world = World()
    first = world.lock("first")
    first.acquire()
    world.time.on_sleep = first.renew
    entered: list[Any] = []
    with pytest.raises(LockHeldError), held(world.lock("second")) as lock:
        entered.append(lock)
    assert entered == []
    assert world.record.holder == first.identity
