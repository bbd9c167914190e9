"""How a waiter waits: it is woken by a change, polls where it may not watch, and never spins."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Generator
from typing import Any

import pytest

from airflow_provider_ragops.exceptions import LockHeldError, LockLostError
from airflow_provider_ragops.locking.times import LockTimes
from tests.fakes.kube import unreachable
from tests.unit.locking.locks import PATH, World

LONG = LockTimes(lease=60, renew_deadline=10, retry=2, wait=600)


def counted(world: World) -> Counter[str]:
    """Requests by verb from now on."""
    calls: Counter[str] = Counter()

    def count(verb: str, path: str) -> None:
        calls[verb] += 1

    world.kube.before = count
    return calls


def test_release_wakes_the_waiter() -> None:
    """A waiter gets a freed lock at once, long before its retry pause, and hardly asks in the meantime."""
    world = World()
    first = world.lock("first", LONG)
    first.acquire()
    began = world.time.clock()

    def free_after_seven_seconds() -> None:
        if world.time.clock() - began >= 7:
            world.time.on_sleep = lambda: None
            first.release()

    world.time.on_sleep = free_after_seven_seconds
    calls = counted(world)
    slow = LockTimes(lease=60, renew_deadline=30, retry=20, wait=600)
    assert world.lock("second", slow).acquire() == 2
    assert 7 <= world.time.clock() - began <= 7 + 1 + 0.2 * 20
    assert calls == {"GET": 3, "WATCH": 1, "PUT": 2}  # one GET and one PUT are the release


@pytest.mark.parametrize("can_watch", [True, False])
def test_renewals_keep_the_waiter_out_and_a_whole_lease_lets_it_in(can_watch: bool) -> None:
    """L6: each renewal starts the lease anew, for a waiter that is woken by it and for one that polls; the last one
    must run out whole. The holder's wall clock stands still."""
    world = World(can_watch)
    first = world.lock("first")
    first.acquire()
    last = began = world.time.clock()

    def renew_for_thirty_seconds() -> None:
        nonlocal last
        if world.time.clock() - began < 30:
            first.renew()
            last = world.time.clock()

    world.time.on_sleep = renew_for_thirty_seconds
    world.lock("second").acquire()
    assert last - began > 20
    # A poller may see the last renewal a pause later, and try a pause after the lease.
    assert 15 <= world.time.clock() - last < 15 + 2.4 + (0.1 if can_watch else 2.4)


def test_refused_watch_is_said_once_and_polled(caplog: pytest.LogCaptureFixture) -> None:
    """L12: where the account may not watch, the waiter says so once and reads again after each pause."""
    world = World(can_watch=False)
    world.lock("first").acquire()
    calls = counted(world)
    began = world.time.clock()
    assert world.lock("second").acquire() == 2
    assert 15 <= world.time.clock() - began < 15 + 2.4
    assert 15 / 2.4 <= calls["GET"] <= 15 / 2 + 2
    assert calls["WATCH"] == 0
    said = [record for record in caplog.records if "not watched" in record.message]
    assert len(said) == 1
    assert "403" in said[0].message


class _Broken(World):
    """A watch that ends at once, in one way or another."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.watches, self.how = 0, how
        self.kube.watch = self.watch  # type: ignore[method-assign]

    def watch(self, path: str, name: str, version: str, seconds: float) -> Generator[dict[str, Any], None, None]:
        self.watches += 1
        if self.how == "down":
            raise unreachable(path)
        if self.how == "silent":
            self.time.sleep(seconds)
        if self.how == "event":
            yield {"type": "MODIFIED", "object": {}}


@pytest.mark.parametrize("how", ["cut", "down", "event"])
def test_watch_that_returns_at_once_makes_no_busy_loop(how: str, caplog: pytest.LogCaptureFixture) -> None:
    """R12: a stream that is cut, does not start, or always tells of a change only means: read again, after a pause."""
    world = _Broken(how)
    world.lock("first").acquire()
    calls = counted(world)
    began = world.time.clock()
    assert world.lock("second").acquire() == 2
    assert 15 <= world.time.clock() - began < 15 + 2.4
    fewest = 0.05 * 2 if how == "event" else 2  # seconds between two reads
    assert calls["GET"] <= 15 / fewest + 2
    assert world.watches >= 6
    assert caplog.text.count("the watch failed") == (how == "down")  # told once


def test_watch_begins_at_what_was_read() -> None:
    """R12: a change between the read and the watch is not missed: the watch starts from the version that was read."""
    world = World()
    first = world.lock("first", LONG)
    first.acquire()

    def release_meanwhile(verb: str, path: str) -> None:
        if verb == "WATCH":
            world.kube.before = lambda verb, path: None
            first.release()

    world.kube.before = release_meanwhile
    began = world.time.clock()
    world.lock("second", LONG).acquire()
    assert world.time.clock() - began < 1


def test_watch_that_holds_events_back_costs_seconds() -> None:
    """R12: where a proxy passes no event on until the stream ends, a release is still noticed by reading again."""
    world = _Broken("silent")
    first = world.lock("first", LONG)
    first.acquire()
    began = world.time.clock()

    def free_after_seven_seconds() -> None:
        if world.time.clock() - began >= 7:
            world.time.on_sleep = lambda: None
            first.release()

    world.time.on_sleep = free_after_seven_seconds
    world.lock("second", LONG).acquire()
    assert world.time.clock() - began <= 11


def test_told_to_stop_takes_no_lock_later() -> None:
    """A1: the sleep may raise, and it is asked after each watch: a waiter that was told to stop in a watch does not
    take the lock that this watch shows to be free."""
    world = World()
    first = world.lock("first", LONG)
    first.acquire()
    second = world.lock("second", LONG)

    def stop(seconds: float) -> None:
        raise LockLostError("task", expected="to go on", seen="the task was told to stop", action="None.")

    second._waiting._sleep = stop
    world.time.on_sleep = first.release
    with pytest.raises(LockLostError, match="told to stop"):
        second.acquire()
    assert world.record.free


def test_unreachable_server_is_no_free_lock() -> None:
    """L12: errors that may pass are tried again until the wait is over; nobody takes a lock that can't be read."""
    world = World()
    world.cut_off()
    began = world.time.clock()
    with pytest.raises(LockHeldError, match=r"within 60 s.*saw .*expected an answer"):
        world.lock().acquire()
    assert 60 <= world.time.clock() - began < 60 + 2.4
    assert PATH not in world.kube.objects


def test_server_that_asks_for_a_pause_gets_it() -> None:
    """L12: with 429 and Retry-After nothing is sent before that time."""
    world = World()

    def throttle(verb: str, path: str) -> None:
        world.kube.before = lambda verb, path: None
        error = unreachable(path)
        error.retry_after = 7.0
        raise error

    world.kube.before = throttle
    began = world.time.clock()
    assert world.lock().acquire() == 1
    assert 7 <= world.time.clock() - began < 8


def test_wait_ends_when_it_was_to_end() -> None:
    """L9: however long the holder's lease, a waiter gives up when its own wait is over, not a lease later."""
    world = World()
    world.lock("first", LockTimes(lease=500, renew_deadline=10, retry=2, wait=600)).acquire()
    began = world.time.clock()
    with pytest.raises(LockHeldError):
        world.lock("second", LockTimes(lease=15, renew_deadline=10, retry=2, wait=63)).acquire()
    assert 63 <= world.time.clock() - began <= 64


def test_holder_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    """A2: waiters show who holds the lock and for what, again when the holder changes, not at every renewal."""
    world = World()
    first = world.lock("first")
    first.acquire()
    world.time.on_sleep = first.renew
    caplog.set_level(logging.INFO)
    with pytest.raises(LockHeldError):
        world.lock("second").acquire()
    told = [record.message for record in caplog.records if "waiting" in record.message]
    assert len(told) == 1
    assert "held by 'first/" in told[0]
    assert "for 'a test'" in told[0]
