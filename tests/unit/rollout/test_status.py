"""The ladder of a rolling update, one rung a test."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_provider_ragops.rollout.status import Pod, Rollout, State, classify, read_pod, read_rollout

WRITTEN = Rollout("uid", 5, 4, "2", 2, 2, 0, 2, False, "")
DONE = replace(WRITTEN, observed_generation=5, updated=2)
PODS = (Pod("a", "2", ready=True, terminating=False), Pod("b", "2", ready=True, terminating=False))


def test_done_when_every_rung_is_passed() -> None:
    """Observed, all updated, all available, nothing draining: done."""
    assert classify(DONE, PODS, written=WRITTEN, version="2").state is State.DONE


@pytest.mark.parametrize(("change", "reason"), [
    ({"observed_generation": 4}, "not seen the change"),
    ({"updated": 1}, "1 of 2 pods updated"),
    ({"replicas": 3}, "1 old pods still there"),
    ({"available": 1}, "1 of 2 updated pods available"),
])  # fmt: skip
def test_waits_on_each_rung(change: dict[str, int], reason: str) -> None:
    """R1: no rung is skipped, least of all the observed generation."""
    progress = classify(replace(DONE, **change), PODS, written=WRITTEN, version="2")  # type: ignore[arg-type]
    assert progress.state is State.WAITING
    assert reason in progress.reason


@pytest.mark.parametrize("pod", [
    Pod("old", "1", ready=True, terminating=True), Pod("old", "2", ready=False, terminating=True),
    Pod("old", "1", ready=False, terminating=False),
])  # fmt: skip
def test_terminating_pods_are_waited_for(pod: Pod) -> None:
    """Kubectl says done while old pods still drain; this does not."""
    progress = classify(DONE, (*PODS, pod), written=WRITTEN, version="2")
    assert (progress.state, "draining: old" in progress.reason) == (State.WAITING, True)


@pytest.mark.parametrize(("change", "reason"), [
    ({"uid": "other"}, "made anew"),
    ({"version": "3"}, "someone else set MODEL_VERSION to '3'"),
    ({"paused": True}, "paused"),
    ({"deadline_exceeded_at": "now"}, "ProgressDeadlineExceeded at now"),
])  # fmt: skip
def test_fails_for_a_reason(change: dict[str, object], reason: str) -> None:
    """Recreated, edited, paused or stuck: failed, with the reason."""
    progress = classify(replace(DONE, **change), PODS, written=WRITTEN, version="2")  # type: ignore[arg-type]
    assert (progress.state, reason in progress.reason) == (State.FAILED, True)


def test_stale_deadline_condition_is_not_believed() -> None:
    """A ProgressDeadlineExceeded that stood there before our write is not ours."""
    old = replace(WRITTEN, deadline_exceeded_at="yesterday")
    assert classify(replace(DONE, deadline_exceeded_at="yesterday"), PODS, written=old, version="2").state is State.DONE


def test_reads_objects_of_the_api_server() -> None:
    """Missing status fields count as zero, and the version is read from the right container."""
    containers = [{"name": "sidecar", "env": [{"name": "MODEL_VERSION", "value": "9"}]},
                  {"name": "serve", "env": [{"name": "MODEL_VERSION", "value": "2"}]}]
    found = {"metadata": {"uid": "u", "generation": 1}, "spec": {"template": {"spec": {"containers": containers}}}}
    seen = read_rollout(found, "serve")
    assert (seen.version, seen.desired, seen.observed_generation, seen.available) == ("2", 1, 0, 0)


@pytest.mark.parametrize(("reason", "restarts", "hopeless"), [
    ("ImagePullBackOff", 5, False), ("CrashLoopBackOff", 1, False), ("CrashLoopBackOff", 2, True),
    ("ContainerCreating", 0, False),
])  # fmt: skip
def test_trouble_is_told_from_patience(reason: str, restarts: int, hopeless: bool) -> None:
    """A pod that only needs time is waited for; one that can't come up is named at once."""
    status = {"containerStatuses": [{"restartCount": restarts, "state": {"waiting": {"reason": reason}}}]}
    pod = read_pod({"metadata": {"name": "p"}, "spec": {"containers": []}, "status": status}, "serve")
    assert bool(pod.trouble) is hopeless
