"""The lock's loop on a store with real write semantics and a clock that moves only by sleeping."""

from __future__ import annotations

import json

import pytest

from airflow_provider_ragops.exceptions import (
    ConfigurationError,
    LockHeldError,
    LockLostError,
    LockRecordError,
    UnreachableError,
)
from airflow_provider_ragops.locking.configmap import ConfigMapStore
from airflow_provider_ragops.locking.lock import Lock, LockTimes, held
from airflow_provider_ragops.locking.record import LockRecord
from tests.fakes.kube import FakeKube, unreachable
from tests.fakes.time import FakeTime

PATH = "/api/v1/namespaces/ns/configmaps/the-lock"
TIMES = LockTimes(lease=15, renew_deadline=10, retry=2, wait=60, max_hold=120)


def make_lock(kube: FakeKube, time: FakeTime, holder: str = "dag/run/task/-1/try 1", times: LockTimes = TIMES) -> Lock:
    store = ConfigMapStore(kube, "ns", "the-lock")  # type: ignore[arg-type]
    return Lock(store, holder, "a test", times, clock=time.clock, sleep=time.sleep)


def stored(kube: FakeKube) -> LockRecord:
    return LockRecord(**json.loads(kube.objects[PATH]["data"]["record"]))


def test_acquire_and_release_cost_two_writes() -> None:
    """An uncontended acquire and release make one write each, and the record outlives the release."""
    kube, time = FakeKube(), FakeTime()
    lock = make_lock(kube, time)
    assert lock.acquire() == 1
    lock.release()
    assert kube.writes == [("POST", PATH), ("PUT", PATH)]
    assert stored(kube).free
    assert stored(kube).transitions == 1


def test_token_grows_with_every_change_of_hand() -> None:
    """Each new hold gets a larger token than all before."""
    kube, time = FakeKube(), FakeTime()
    tokens = []
    for _ in range(3):
        lock = make_lock(kube, time)
        tokens.append(lock.acquire())
        lock.release()
    assert tokens == [1, 2, 3]


def test_waiter_takes_over_after_a_whole_unchanged_lease() -> None:
    """A dead holder is succeeded after its lease, counted from when the waiter first saw the record."""
    kube, time = FakeKube(), FakeTime()
    make_lock(kube, time).acquire()
    time.seconds += 10_000  # how long it was dead before anyone looked must not matter
    started = time.clock()
    assert make_lock(kube, time, "other").acquire() == 2
    assert 15 <= time.clock() - started < 15 + 2 * 2.4


def test_living_holder_is_never_robbed_and_named() -> None:
    """A waiter gives up after its wait and says who holds the lock, for what."""
    kube, time = FakeKube(), FakeTime()
    first = make_lock(kube, time, "first")
    first.acquire()
    time.on_sleep = first.renew
    with pytest.raises(LockHeldError, match=r"(?s)ns/the-lock.*first.*'a test'"):
        make_lock(kube, time, "second").acquire()
    first.check()


def test_lost_reply_of_a_create_is_found_again() -> None:
    """L3: the write was applied and its reply lost: the holder recognises itself and the token grows once."""
    kube, time = FakeKube(), FakeTime()

    def lose_reply(verb: str, path: str) -> None:
        kube.after = lambda verb, path: None
        raise unreachable(path)

    kube.after = lose_reply
    lock = make_lock(kube, time)
    assert lock.acquire() == 1
    assert stored(kube).holder == lock.identity


def test_lost_reply_of_a_renewal_is_found_again() -> None:
    """L3: a renewal whose reply was lost meets its own write as a 409 and still holds."""
    kube, time = FakeKube(), FakeTime()
    lock = make_lock(kube, time)
    lock.acquire()

    def lose_reply(verb: str, path: str) -> None:
        kube.after = lambda verb, path: None
        raise unreachable(path)

    kube.after = lose_reply
    with pytest.raises(UnreachableError):
        lock.renew()
    lock.renew()
    lock.check()
    assert lock.token == 1


def test_release_after_takeover_changes_nothing() -> None:
    """L4: a former holder's release leaves the new holder's record byte for byte."""
    kube, time = FakeKube(), FakeTime()
    first, second = make_lock(kube, time, "first"), make_lock(kube, time, "second")
    first.acquire()
    second.acquire()
    before = kube.objects[PATH]
    first.release()
    assert kube.objects[PATH] == before


def test_renewal_after_takeover_says_who_has_it() -> None:
    """A holder that was taken over learns it at its next renewal."""
    kube, time = FakeKube(), FakeTime()
    first, second = make_lock(kube, time, "first"), make_lock(kube, time, "second")
    first.acquire()
    second.acquire()
    with pytest.raises(LockLostError, match="second"):
        first.renew()


@pytest.mark.parametrize(("change", "named"), [
    ({"lease": 0}, "lease"), ({"lease": 0.5}, "lease"), ({"renew_deadline": 15}, "renew_deadline"),
    ({"retry": 9}, "retry"), ({"wait": 15}, "wait"), ({"max_hold": 1}, "max_hold"),
])  # fmt: skip
def test_impossible_times_are_refused(change: dict[str, float], named: str) -> None:
    """L8: each broken relation between durations is refused at construction and named."""
    values = {"lease": 15, "renew_deadline": 10, "retry": 2, "wait": 60, "max_hold": 120} | change
    with pytest.raises(ConfigurationError, match=named):
        LockTimes(**values)  # type: ignore[arg-type]


def test_empty_holder_is_refused() -> None:
    """L8: a lock without a holder's name can't be made."""
    with pytest.raises(ConfigurationError, match="holder"):
        make_lock(FakeKube(), FakeTime(), "")


def test_the_holders_lease_counts_not_the_waiters() -> None:
    """L9: a waiter with a short lease respects the long one in the record."""
    kube, time = FakeKube(), FakeTime()
    make_lock(kube, time, "slow", LockTimes(lease=50, renew_deadline=10, retry=2, wait=60)).acquire()
    started = time.clock()
    make_lock(kube, time, "quick").acquire()
    assert time.clock() - started >= 50


@pytest.mark.parametrize("text", ["", "{}", "null", '{"schema": 2}', '{"holder": 3, "transitions": 1}'])
def test_foreign_content_is_never_stolen(text: str) -> None:
    """L11: something that is no lock record is refused with its text, and stays."""
    kube, time = FakeKube(), FakeTime()
    kube.put(PATH, {"metadata": {"name": "the-lock"}, "data": {"record": text}})
    with pytest.raises(LockRecordError, match="ns/the-lock"):
        make_lock(kube, time).acquire()
    assert kube.objects[PATH]["data"] == {"record": text}


def test_foreign_data_and_annotations_survive() -> None:
    """L11: other keys, labels and annotations of the object are kept through a whole hold."""
    kube, time = FakeKube(), FakeTime()
    kube.put(PATH, {"metadata": {"name": "the-lock", "annotations": {"a": "b"}}, "data": {"other": "x"}})
    lock = make_lock(kube, time)
    lock.acquire()
    lock.release()
    assert kube.objects[PATH]["metadata"]["annotations"] == {"a": "b"}
    assert kube.objects[PATH]["data"]["other"] == "x"


def test_second_try_of_the_same_task_waits() -> None:
    """L13: the same task instance's next try is another holder."""
    kube, time = FakeKube(), FakeTime()
    first = make_lock(kube, time, "dag/run/task/-1")
    first.acquire()
    time.on_sleep = first.renew
    with pytest.raises(LockHeldError):
        make_lock(kube, time, "dag/run/task/-1").acquire()


def test_hold_ends_at_its_maximum_even_when_renewed() -> None:
    """L14: a renewal that goes on for ever does not keep the lock for ever."""
    kube, time = FakeKube(), FakeTime()
    lock = make_lock(kube, time)
    lock.acquire()
    for _ in range(11):
        time.seconds += 10
        lock.renew()
    time.seconds += 10
    with pytest.raises(LockLostError, match="120"):
        lock.renew()
    with pytest.raises(LockLostError):
        lock.check()


def test_validity_counts_from_before_the_request() -> None:
    """A slow reply eats into the hold: validity starts when the request was sent."""
    kube, time = FakeKube(), FakeTime()

    def slow(verb: str, path: str) -> None:
        if verb == "POST":
            time.seconds += 9

    kube.after = slow
    lock = make_lock(kube, time)
    lock.acquire()
    lock.check(0.5)
    time.seconds += 1.5
    with pytest.raises(LockLostError):
        lock.check()


def test_unreachable_store_ends_the_hold_by_its_own_clock() -> None:
    """L7: without the API server the holder stops at its renew deadline, before others may take over."""
    kube, time = FakeKube(), FakeTime()
    lock = make_lock(kube, time)
    lock.acquire()

    def down(verb: str, path: str) -> None:
        raise unreachable(path)

    kube.before = down
    time.seconds += 9
    with pytest.raises(UnreachableError):
        lock.renew()
    lock.check()
    time.seconds += 1.1
    with pytest.raises(LockLostError, match="ns/the-lock"):
        lock.check()


def test_context_manager_frees_the_lock_when_the_block_fails() -> None:
    """The lock is free again whatever way the block ends."""
    kube, time = FakeKube(), FakeTime()

    def fail() -> None:
        with held(make_lock(kube, time)):
            assert not stored(kube).free
            raise RuntimeError("boom")

    with pytest.raises(RuntimeError, match="boom"):
        fail()
    assert stored(kube).free


def test_conflict_by_a_stranger_is_answered_with_a_write() -> None:
    """A label set by a stranger costs no hold, and the renewal is written: others judge by the record's change."""
    kube, time = FakeKube(), FakeTime()
    lock = make_lock(kube, time)
    lock.acquire()
    before = stored(kube)
    kube.put(PATH, kube.objects[PATH] | {"metadata": {"name": "the-lock", "labels": {"x": "y"}}})
    lock.renew()
    assert stored(kube) != before
    lock.check()


def test_strangers_touch_keeps_no_dead_holder_alive() -> None:
    """Expiry is judged by the record: an object that someone else keeps writing still expires."""
    kube, time = FakeKube(), FakeTime()
    make_lock(kube, time).acquire()
    time.on_sleep = lambda: kube.put(PATH, kube.objects[PATH])
    assert make_lock(kube, time, "other").acquire() == 2


def test_deleted_lock_is_lost() -> None:
    """A holder whose object was deleted learns it at its next renewal."""
    kube, time = FakeKube(), FakeTime()
    lock = make_lock(kube, time)
    lock.acquire()
    del kube.objects[PATH]
    with pytest.raises(LockLostError, match="deleted"):
        lock.renew()
