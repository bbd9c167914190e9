"""A lock over several tasks: taken by one operator, freed by another, for users' own sections."""

from __future__ import annotations

import json
import threading
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowFailException, AirflowTaskTimeout

from airflow_provider_ragops.exceptions import LockHeldError, LockLostError, UnreachableError
from airflow_provider_ragops.hooks.serving import ServingHook
from airflow_provider_ragops.operators.lock import LockAcquireOperator, LockReleaseOperator
from tests.fakes.kube import FakeKube, unreachable
from tests.fakes.time import FakeTime

PATH = "/api/v1/namespaces/ns/configmaps/export"


@pytest.fixture
def kube(monkeypatch: pytest.MonkeyPatch) -> FakeKube:
    made = FakeKube()
    monkeypatch.setattr(ServingHook, "kube", made)
    return made


def acquire(**changes: Any) -> LockAcquireOperator:
    asked = {"task_id": "acquire", "namespace": "ns", "lock_name": "export", "lease_seconds": 3600} | changes
    return LockAcquireOperator(**asked)


def release(lock: Any) -> LockReleaseOperator:
    return LockReleaseOperator(task_id="release", lock=lock)


def context(try_number: int = 1, task_id: str = "acquire") -> Any:
    ti = SimpleNamespace(dag_id="d", run_id="r", task_id=task_id, map_index=-1, try_number=try_number)
    return {"ti": ti}


def stored(kube: FakeKube) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(kube.objects[PATH]["data"]["record"])
    return found


def test_section_takes_and_frees_the_lock_by_two_writes(kube: FakeKube) -> None:
    """One task takes the lock for as long as the section may last, another one frees it; one write each."""
    lock = json.loads(json.dumps(acquire(purpose="nightly export").execute(context())))
    assert lock == {"namespace": "ns", "lock_name": "export", "holder": stored(kube)["holder"], "token": 1}
    assert lock["holder"].startswith("d/r/acquire/-1/try 1/")
    assert (stored(kube)["lease_seconds"], stored(kube)["purpose"]) == (3600, "nightly export")
    release(lock).execute(context(task_id="release"))
    assert (stored(kube)["holder"], stored(kube)["transitions"]) == ("", 1)
    assert kube.writes == [("POST", PATH), ("PUT", PATH)]


def test_they_make_a_setup_and_a_teardown() -> None:
    """Used as a setup and its teardown, the release runs where the middle failed, on what the setup returned."""
    with DAG("d", schedule=None):
        first = acquire()
        last = LockReleaseOperator(task_id="release", lock=first.output)
        first >> last.as_teardown(setups=first)
    assert first.is_setup
    assert last.is_teardown
    assert last.trigger_rule == "all_done_setup_success"
    assert first.task_id in last.upstream_task_ids


@pytest.mark.parametrize(("try_number", "task_id"), [(1, "acquire"), (2, "acquire"), (1, "acquire_again")])
def test_no_other_entry_by_equality(kube: FakeKube, try_number: int, task_id: str) -> None:
    """L13, A4: a second process of the same try, the next try after the first one's XCom was cleared, and another task
    of the same run do not enter on the first one's hold: they wait."""
    acquire().execute(context())
    operator = acquire()
    asked = _stop_at_the_first_pause(operator)
    with pytest.raises(LockLostError, match="told to stop"):
        operator.execute(context(try_number, task_id))
    assert asked == [1]
    assert stored(kube)["transitions"] == 1


def _stop_at_the_first_pause(operator: LockAcquireOperator) -> list[int]:
    asked: list[int] = []

    class Stop(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            asked.append(1)
            return True

    operator._stop = Stop()
    return asked


def test_waiter_gets_it_when_it_is_freed(kube: FakeKube) -> None:
    """A4: two runs' sections take turns; the second one's token is larger."""
    first = acquire().execute(context())
    kube.time = FakeTime()
    kube.time.on_sleep = lambda: release(first).execute(context())
    assert acquire().execute(context(2))["token"] == 2


def test_wait_ends(kube: FakeKube, monkeypatch: pytest.MonkeyPatch) -> None:
    """L9: the wait is twice a lease unless it is given, and ends with the holder's name, to be tried again."""
    acquire(lease_seconds=7200).execute(context())
    time = FakeTime()
    monkeypatch.setattr("airflow_provider_ragops.operators.lock.elapsed", time.clock)
    operator = acquire(lease_seconds=60)
    operator._sleep = time.sleep  # type: ignore[method-assign]
    with pytest.raises(LockHeldError, match=r"within 120 s.*held by 'd/r/acquire/-1/try 1/"):
        operator.execute(context(2))
    assert 120 <= time.clock() - 1000 < 123


def test_release_changes_no_others_hold(kube: FakeKube) -> None:
    """L4: after a takeover the release leaves the new holder's record as it is, and fails for somebody to look."""
    first = acquire().execute(context())
    _expire(kube)
    second = acquire().execute(context(2))
    before = kube.objects[PATH]
    with pytest.raises(AirflowFailException, match=rf"ns/export.*token 1; saw token 2, '{second['holder']}'.*lengthen"):
        release(first).execute(context())
    assert kube.objects[PATH] == before


def _expire(kube: FakeKube) -> None:
    """What a waiter does after the lease: here a person frees it."""
    record = stored(kube) | {"holder": ""}
    kube.put(PATH, kube.objects[PATH] | {"data": {"record": json.dumps(record)}})


def test_release_after_the_next_section_ended_fails_too(kube: FakeKube) -> None:
    """L4: taken over and freed again meanwhile: free is not enough, the token tells that somebody was there."""
    first = acquire().execute(context())
    _expire(kube)
    release(acquire().execute(context(2))).execute(context())
    with pytest.raises(AirflowFailException, match="saw token 2"):
        release(first).execute(context())


def test_deleted_lock_fails_the_release(kube: FakeKube) -> None:
    """L5: whoever deleted the object may have let somebody in; the release does not make it anew."""
    first = acquire().execute(context())
    del kube.objects[PATH]
    with pytest.raises(AirflowFailException, match="no such object"):
        release(first).execute(context())
    assert PATH not in kube.objects


def test_release_with_a_lost_reply_is_retried(kube: FakeKube) -> None:
    """L3: applied, reply lost: the task fails in a way that Airflow retries, and the retry finds its work done."""
    first = acquire().execute(context())

    def lost(verb: str, path: str) -> None:
        kube.after = lambda verb, path: None
        raise unreachable(path)

    kube.after = lost
    with pytest.raises(UnreachableError):
        release(first).execute(context())
    release(first).execute(context(2))
    assert len(kube.writes) == 2


def test_nothing_acquired_means_nothing_to_release(kube: FakeKube) -> None:
    """A setup that was marked by hand, or cleared, returned nothing: the teardown succeeds and asks for nothing."""
    asked: list[str] = []
    kube.before = lambda verb, path: asked.append(verb)
    release(None).execute(context())
    assert asked == []


@pytest.mark.parametrize("lock", ["text", {"namespace": "ns"}, {"namespace": "n", "lock_name": "l", "holder": "h",
                                                                "token": "x"}])
def test_nonsense_is_refused(kube: FakeKube, lock: Any) -> None:
    """L8: what no acquiring task returned is refused with what was expected."""
    with pytest.raises(AirflowFailException, match=r"what LockAcquireOperator returned.*acquire\.output"):
        release(lock).execute(context())


@pytest.mark.parametrize(("change", "named"), [
    ({"lease_seconds": 59}, "at least 60; saw 59"), ({"lease_seconds": 90.5}, r"saw 90\.5"),
    ({"lease_seconds": "3600"}, "saw '3600'"), ({"wait_seconds": 3600}, "wait longer than lease=3600"),
    ({"lock_name": ""}, "lock_name"), ({"lock_name": "mlflow-serve-release-lock"}, "the name of a release lock"),
])  # fmt: skip
def test_impossible_sections_are_refused(kube: FakeKube, change: dict[str, Any], named: str) -> None:
    """L8: too short a lease, a wait that could not outlast a dead holder, and a release's own lock fail at once."""
    with pytest.raises(AirflowFailException, match=named):
        acquire(**change).execute(context())
    assert kube.objects == {}


def test_timeout_in_the_write_leaves_nothing_behind(kube: FakeKube) -> None:
    """A8: an execution timeout between the write that took the lock and the return frees it."""

    def time_out(verb: str, path: str) -> None:
        kube.after = lambda verb, path: None
        raise AirflowTaskTimeout("Timeout")

    kube.after = time_out
    with pytest.raises(AirflowTaskTimeout):
        acquire().execute(context())
    assert stored(kube)["holder"] == ""


def test_killed_waiter_takes_nothing_later(kube: FakeKube) -> None:
    """A1: a waiter whose task was told to stop raises at its next pause, although the lock is free by then."""
    first = acquire().execute(context())
    operator = acquire()
    kube.time = FakeTime()

    def freed_and_killed() -> None:
        release(first).execute(context())
        operator.on_kill()

    kube.time.on_sleep = freed_and_killed
    with pytest.raises(LockLostError, match="told to stop"):
        operator.execute(context(2))
    assert stored(kube)["holder"] == ""


def test_template_fields() -> None:
    """Names and purpose are rendered, and so is what the acquiring task returned."""
    assert set(LockAcquireOperator.template_fields) == {"namespace", "lock_name", "purpose"}
    assert set(LockReleaseOperator.template_fields) == {"lock"}
