"""The lock: acquire, renew, check, release; also what a slow, cut or lying API server does to it."""

from __future__ import annotations

from datetime import timedelta

import pytest

from airflow_provider_ragops.exceptions import LockHeldError, LockLostError, UnreachableError
from airflow_provider_ragops.locking.times import LockTimes
from tests.fakes.time import Clock
from tests.unit.locking.locks import NOON, PATH, World


def test_acquire_and_release_cost_two_writes() -> None:
    """An uncontended acquire and release make one write each, and the record outlives the release."""
    world = World()
    lock = world.lock()
    assert lock.acquire() == 1
    lock.release()
    assert world.kube.writes == [("POST", PATH), ("PUT", PATH)]
    assert world.record.free
    assert world.record.transitions == 1


def test_every_later_hold_costs_two_writes_too() -> None:
    """On an object that exists already, acquire and release replace it once each."""
    world = World()
    world.lock().acquire()
    world.time.seconds += 100
    second = world.lock("second")
    second.acquire()
    world.kube.writes.clear()
    second.release()
    third = world.lock("third")
    third.acquire()
    assert world.kube.writes == [("PUT", PATH), ("PUT", PATH)]


def test_token_grows_with_every_change_of_hand() -> None:
    """L2: each new hold gets a larger token than all before."""
    world = World()
    tokens = []
    for _ in range(3):
        lock = world.lock()
        tokens.append(lock.acquire())
        lock.release()
    assert tokens == [1, 2, 3]


def test_living_holder_is_never_robbed_and_named() -> None:
    """L13: a waiter gives up after its wait and says who holds the lock, since when, for what."""
    world = World()
    first = world.lock("first")
    first.acquire()
    world.time.on_sleep = first.renew
    with pytest.raises(LockHeldError, match=r"(?s)ns/the-lock.*60 s.*first.*since 2026-01-01T12.*'a test'"):
        world.lock("second").acquire()
    first.check()


@pytest.mark.parametrize("holder", ["dag/run/task/-1/try 1", "dag/run/another_task/-1/try 1"])
def test_second_entry_of_the_same_run_waits(holder: str) -> None:
    """L13, A4: no second process of the same task instance, nor another task of the same run, enters by equality."""
    world = World()
    first = world.lock("dag/run/task/-1/try 1")
    first.acquire()
    world.time.on_sleep = first.renew
    with pytest.raises(LockHeldError):
        world.lock(holder).acquire()
    assert world.record.holder == first.identity


def test_lost_reply_of_a_create_is_found_again() -> None:
    """L3: the write was applied and its reply lost: the holder recognises itself and the token grows once."""
    world = World()
    world.lose_reply()
    lock = world.lock()
    began = world.time.clock()
    assert lock.acquire() == 1
    assert world.record.holder == lock.identity
    assert world.time.clock() - began <= 2.4  # it does not wait for its own lease to end


def test_lost_reply_of_a_takeover_is_found_again() -> None:
    """L3: the same of a replace, with a competitor that looks before the retry: it finds the lock held."""
    world = World()
    world.lock("dead").acquire()
    mine, other = world.lock("mine"), world.lock("other")
    refused = []

    def lose_reply(verb: str, path: str) -> None:
        world.kube.after = lambda verb, path: None
        refused.append(other._try_acquire())
        raise UnreachableError(path, expected="an answer", seen="none", action="Wait.")

    world.kube.after = lose_reply
    assert mine.acquire() == 2
    assert [refusal.who for refusal in refused if refusal] == [mine.identity]


def test_lost_reply_of_a_renewal_is_found_again() -> None:
    """L3: a renewal whose reply was lost meets its own write as a 409 and still holds, by the same token."""
    world = World()
    lock = world.lock()
    lock.acquire()
    world.lose_reply()
    with pytest.raises(UnreachableError):
        lock.renew()
    lock.renew()
    lock.check()
    assert lock.token == world.record.transitions == 1


def test_release_after_takeover_changes_nothing() -> None:
    """L4: a former holder's release leaves the new holder's record byte for byte."""
    world = World()
    first, second = world.lock("first"), world.lock("second")
    first.acquire()
    second.acquire()
    before = world.body
    first.release()
    assert world.body == before


def test_release_that_loses_a_race_changes_nothing() -> None:
    """L4: taken over between the release's read and its write: the compare-and-swap fails, the new record stays."""
    world = World()
    first = world.lock("first")
    first.acquire()

    def take_over(verb: str, path: str) -> None:
        if verb == "PUT":
            world.kube.before = lambda verb, path: None
            world.lock("second").acquire()

    world.kube.before = take_over
    first.release()
    assert world.record.holder.startswith("second/")


def test_failed_release_hides_no_error_of_the_block(caplog: pytest.LogCaptureFixture) -> None:
    """L7: a release that gets no answer logs that the lease will end by itself, and raises nothing."""
    world = World()
    lock = world.lock()
    lock.acquire()
    world.cut_off()
    lock.release()
    assert "ns/the-lock: not released, its lease will end by itself" in caplog.text


def test_renewal_after_takeover_says_who_has_it() -> None:
    """L1: a holder that was taken over learns it at its next renewal, and from then on has no token."""
    world = World()
    first, second = world.lock("first"), world.lock("second")
    first.acquire()
    second.acquire()
    with pytest.raises(LockLostError, match="second"):
        first.renew()
    with pytest.raises(LockLostError):
        _ = first.token


def test_the_holders_lease_counts_not_the_waiters() -> None:
    """L9: a waiter with a lease of 15 seconds respects the 60 in the record."""
    world = World()
    world.lock("slow", LockTimes(lease=60, renew_deadline=10, retry=2, wait=70)).acquire()
    started = world.time.clock()
    world.lock("quick", LockTimes(lease=5, renew_deadline=4, retry=1, wait=100)).acquire()
    assert world.time.clock() - started >= 60


@pytest.mark.parametrize(("holder_hours", "waiter_hours"), [(1, -1), (-1, 1), (0, 1), (0, -1), (-24, 24)])
def test_wall_clocks_do_not_matter(holder_hours: int, waiter_hours: int) -> None:
    """L6: with wall clocks hours apart a dead holder is succeeded after its lease: not before, not later."""
    world = World()
    world.lock("dead", wall=NOON + timedelta(hours=holder_hours)).acquire()
    started = world.time.clock()
    world.lock("other", wall=NOON + timedelta(hours=waiter_hours)).acquire()
    assert 15 <= world.time.clock() - started < 15 + 2.4


def test_wall_clock_set_back_in_a_hold_changes_nothing() -> None:
    """L6: a step of the wall clock while the lock is held neither ends the hold nor lengthens it."""
    world = World()
    lock = world.lock()
    lock.acquire()
    lock._now = lambda: NOON - timedelta(hours=1)
    world.time.seconds += 5
    lock.renew()
    world.time.seconds += 9.9
    lock.check()
    world.time.seconds += 0.2
    with pytest.raises(LockLostError):
        lock.check()


@pytest.mark.parametrize("rate", [0.5, 2.0])
def test_twice_the_clock_rate_is_borne(rate: float) -> None:
    """L6: by the default times a waiter whose clock runs twice as fast takes over only after the holder gave up, and
    one whose clock runs half as fast takes over in the end."""
    world = World(can_watch=False)  # a watch is timed by the server's clock
    holder = world.lock("dead", LockTimes())
    holder.acquire()
    waiter = world.lock("other", LockTimes(), Clock(world.time, rate, offset=-7e6))
    started = world.time.clock()
    waiter.acquire()
    with pytest.raises(LockLostError):
        holder.check()
    assert 45 / rate - 0.001 <= world.time.clock() - started < 45 / rate + 10
    waiter.check()


def test_waiter_takes_over_after_a_whole_unchanged_lease() -> None:
    """L6: a dead holder is succeeded after its lease, counted from when the waiter first saw the record."""
    world = World()
    world.lock().acquire()
    world.time.seconds += 10_000  # how long it was dead before anyone looked must not matter
    started = world.time.clock()
    assert world.lock("other").acquire() == 2
    assert 15 <= world.time.clock() - started < 15 + 2.4


def test_validity_counts_from_before_the_request() -> None:
    """L17: a slow reply eats into the hold: validity starts when the request was sent."""
    world = World()

    def slow(verb: str, path: str) -> None:
        world.time.seconds += 9

    world.kube.after = slow
    lock = world.lock()
    lock.acquire()
    lock.check(0.5)
    world.time.seconds += 1.5
    with pytest.raises(LockLostError):
        lock.check()
    lock.renew()
    lock.check(0.5)
    world.time.seconds += 1.5
    with pytest.raises(LockLostError):
        lock.check()


def test_unreachable_store_ends_the_hold_by_its_own_clock() -> None:
    """L7: without the API server the holder stops at its renew deadline, before others may take over; the error names
    lock, holder and age."""
    world = World()
    lock = world.lock("dag/run/task/-1/try 1")
    lock.acquire()
    world.cut_off()
    world.time.seconds += 9
    with pytest.raises(UnreachableError):
        lock.renew()
    lock.check()
    world.time.seconds += 1.1
    with pytest.raises(LockLostError, match=r"(?s)ns/the-lock.*dag/run/task/-1/try 1/.*10\.1 s ago, trusted for 10 s"):
        lock.check()


def test_effect_that_would_outlast_the_hold_is_not_begun() -> None:
    """L7: an effect that needs more seconds than are left is refused although the hold is still valid."""
    world = World()
    lock = world.lock()
    lock.acquire()
    world.time.seconds += 7
    lock.check(2.9)
    with pytest.raises(LockLostError):
        lock.check(3.0)


def test_hold_ends_at_its_maximum_even_when_renewed() -> None:
    """L14: a renewal that goes on beside a hung task does not keep the lock for ever: the hold ends, others get it."""
    world = World()
    lock = world.lock()
    lock.acquire()
    for _ in range(11):
        world.time.seconds += 10
        lock.renew()
    world.time.seconds += 9.9
    lock.check()
    world.time.seconds += 0.1
    with pytest.raises(LockLostError, match="held for 120"):
        lock.renew()
    with pytest.raises(LockLostError, match="held for 120"):
        lock.check()
    assert world.lock("other").acquire() == 2


def test_hold_renewed_just_before_its_maximum_ends_with_it() -> None:
    """L14: the last renewal does not carry the hold beyond its maximum."""
    world = World()
    lock = world.lock()
    lock.acquire()
    for _ in range(17):
        world.time.seconds += 7
        lock.renew()
    world.time.seconds += 1
    with pytest.raises(LockLostError, match="held for 120"):
        lock.check()


def test_conflict_by_a_stranger_is_answered_with_a_write() -> None:
    """L11: a label set by a stranger costs no hold, and the renewal is written: others judge by the record's change."""
    world = World()
    lock = world.lock()
    lock.acquire()
    world.kube.put(PATH, world.body | {"metadata": {"name": "the-lock", "labels": {"x": "y"}}})
    lock._now = lambda: NOON + timedelta(seconds=5)
    lock.renew()
    assert world.record.renew_time == "2026-01-01T12:00:05+00:00"
    assert world.body["metadata"]["labels"] == {"x": "y"}
    lock.check()


def test_strangers_touch_keeps_no_dead_holder_alive() -> None:
    """L6: expiry is judged by the record: an object that someone else keeps writing still expires."""
    world = World()
    world.lock().acquire()
    started = world.time.clock()
    world.time.on_sleep = lambda: world.kube.put(PATH, world.body)
    assert world.lock("other").acquire() == 2
    assert world.time.clock() - started < 15 + 2.4


def test_deleted_lock_is_lost() -> None:
    """L5: a holder whose object was deleted learns it at its next renewal, also where another one was made since."""
    world = World()
    lock = world.lock()
    lock.acquire()
    del world.kube.objects[PATH]
    with pytest.raises(LockLostError, match="deleted"):
        lock.renew()
    second = world.lock("second")
    second.acquire()
    del world.kube.objects[PATH]
    world.lock("third").acquire()
    with pytest.raises(LockLostError, match="third"):
        second.renew()
