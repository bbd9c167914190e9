"""The ladder of a rolling update: one verdict and one message a row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from airflow_provider_ragops.rollout.status import (
    Doubt,
    Pod,
    Progress,
    Rollout,
    State,
    classify,
    classify_drain,
    confirm,
)

WRITTEN = Rollout("uid", 5, 4, "2", 2, 2, 0, 2, False, "", template="t")
DONE = replace(WRITTEN, observed_generation=5, updated=2)
A = Pod("a", "2", ready=True, terminating=False, running=True, answered=True)
B = replace(A, name="b")
OLD = replace(A, name="old", version="1")
LOADING = replace(B, ready=False, answered=False, waits="loading: starting")
UNPLACED = replace(
    LOADING, running=False, placed=False, waits="not scheduled: Unschedulable: 1 Insufficient nvidia.com/gpu",
)

WAITING, FAILED, DOUBTFUL = State.WAITING, State.FAILED, State.DOUBTFUL


def judged(changed: dict[str, Any], pods: Sequence[Pod] = (A, B), **written: Any) -> Progress:
    """The verdict over a finished rollout but for what is given."""
    return classify(replace(DONE, **changed), pods, written=replace(WRITTEN, **written), version="2")


def test_done_when_every_rung_is_passed() -> None:
    """Observed, all updated, all available, each heard from, nothing draining: done."""
    assert judged({}) == Progress(State.DONE, "2 pods serve 2")


# name, changed fields, pods, verdict, message, whether the version is to blame
ROWS: list[tuple[str, dict[str, Any], Sequence[Pod], State, str, bool]] = [
    ("paused", {"paused": True}, (A, B), FAILED, "the Deployment is paused", False),
    ("replicas 0", {"desired": 0, "replicas": 0, "updated": 0, "available": 0}, (), FAILED,
     "the Deployment was scaled to 0 replicas", False),
    ("deleted and made anew", {"uid": "other"}, (A, B), FAILED, "the Deployment was deleted and made anew", False),
    ("another version", {"version": "3", "template": "t3"}, (A, B), FAILED, "someone else set MODEL_VERSION to '3'",
     False),
    ("template superseded", {"template": "restartedAt"}, (A, B), FAILED,
     "someone else changed the pod template, though not its MODEL_VERSION", False),
    ("autoscaler adds a pod", {"generation": 6, "observed_generation": 6, "desired": 3}, (A, B), WAITING,
     "2 of 3 pods updated", False),
    ("autoscaler, not seen yet", {"generation": 6, "desired": 1}, (A, B), WAITING,
     "the controller has not seen the change yet", False),
    ("autoscaler takes a pod away", {"generation": 6, "observed_generation": 6, "desired": 1}, (A, B), WAITING,
     "1 pods too many", False),
    ("not observed", {"observed_generation": 4}, (A, B), WAITING, "the controller has not seen the change yet", False),
    ("updated", {"updated": 1}, (A, B), WAITING, "1 of 2 pods updated", False),
    ("old pods", {"replicas": 3}, (A, B, OLD), WAITING, "1 old pods still there", False),
    ("available", {"available": 1}, (A, B), WAITING, "1 of 2 updated pods available", False),
    ("loading", {"available": 1}, (A, LOADING), WAITING, "1 of 2 updated pods available; pod b: loading: starting",
     True),
    ("no room", {"available": 1}, (A, UNPLACED), WAITING,
     f"1 of 2 updated pods available; pod b: {UNPLACED.waits}", False),
    ("old pod terminating", {}, (A, B, replace(OLD, terminating=True)), WAITING, "old pods still draining: old", False),
    ("new pod terminating", {}, (A, B, replace(A, name="c", terminating=True)), WAITING,
     "old pods still draining: c", False),
    ("not heard from", {}, (A, replace(B, answered=False)), WAITING, "not yet heard from: b", False),
    ("pods not listed", {}, (A,), WAITING, "1 of 2 pods are listed", False),
    ("crashing", {"available": 1}, (A, replace(LOADING, trouble="CrashLoopBackOff")), FAILED, "pod b: CrashLoopBackOff",
     True),
    ("quota", {"updated": 1, "replica_failure": "FailedCreate: exceeded quota"}, (A, OLD), DOUBTFUL,
     "a pod could not be made: FailedCreate: exceeded quota", False),
    ("quota, a pod leaves", {"updated": 1, "replica_failure": "FailedCreate: exceeded quota"},
     (A, replace(OLD, terminating=True)), WAITING,
     "1 of 2 pods updated; a pod could not be made: FailedCreate: exceeded quota", False),
    ("quota, one pod less", {"updated": 0, "replica_failure": "FailedCreate: exceeded quota", "makes_room": True},
     (OLD,), WAITING, "0 of 2 pods updated; a pod could not be made: FailedCreate: exceeded quota", False),
    ("deadline", {"updated": 1, "deadline_exceeded_at": "2026-01-02"}, (A, LOADING), DOUBTFUL,
     "ProgressDeadlineExceeded at 2026-01-02; pod b: loading: starting", True),
    ("deadline, no room", {"updated": 1, "deadline_exceeded_at": "2026-01-02"}, (A, UNPLACED), DOUBTFUL,
     f"ProgressDeadlineExceeded at 2026-01-02; pod b: {UNPLACED.waits}", False),
    ("deadline, but done", {"deadline_exceeded_at": "2026-01-02"}, (A, B), State.DONE, "2 pods serve 2", False),
]


@pytest.mark.parametrize(("changed", "pods", "state", "reason", "blames"), [row[1:] for row in ROWS],
                         ids=[row[0] for row in ROWS])
def test_one_verdict_and_one_message_per_row(
    changed: dict[str, Any], pods: Sequence[Pod], state: State, reason: str, blames: bool,
) -> None:
    """R1, R4: no rung is skipped; a person, a lack of room and the version itself are told apart."""
    seen = judged(changed, pods)
    assert (seen.state, seen.reason, seen.blames_version) == (state, reason, blames)


def test_autoscaler_in_mid_rollout_is_followed() -> None:
    """R4: more replicas than at our write are no supersession; the rollout is done when all of them serve."""
    grown = {"generation": 6, "observed_generation": 6, "desired": 3, "replicas": 3, "updated": 3, "available": 3}
    assert judged(grown, (A, B, replace(A, name="c"))) == Progress(State.DONE, "3 pods serve 2")


@pytest.mark.parametrize("at", ["2026-01-01", "2025-12-31"])
def test_stale_deadline_is_not_believed(at: str) -> None:
    """R2: a ProgressDeadlineExceeded as old as the one at our write, or older, is not about our rollout."""
    seen = judged({"updated": 1, "deadline_exceeded_at": at}, deadline_exceeded_at="2026-01-01")
    assert seen == Progress(WAITING, "1 of 2 pods updated")


def test_deadline_must_be_seen_twice() -> None:
    """R2: the first look after the controller caught up may show the last rollout's end; the second one decides."""
    exceeded = judged({"updated": 1, "deadline_exceeded_at": "2026-01-02"}, (A, LOADING))
    first, suspicion = confirm(exceeded, None, 10.0)
    assert (first.state, first.reason) == (WAITING, exceeded.reason)
    second, _ = confirm(exceeded, suspicion, 11.0)
    assert (second.state, second.reason, second.blames_version) == (FAILED, exceeded.reason, True)


def test_deadline_that_goes_away_is_forgotten() -> None:
    """R2: seen, not seen, seen again is once and once, not twice."""
    exceeded = judged({"updated": 1, "deadline_exceeded_at": "2026-01-02"})
    _, suspicion = confirm(exceeded, None, 10.0)
    _, suspicion = confirm(judged({"updated": 1}), suspicion, 11.0)
    assert suspicion is None
    assert confirm(exceeded, suspicion, 12.0)[0].state is WAITING


def test_quota_must_last() -> None:
    """R4: a ReplicaSet tries again only after a while; what frees its quota within that is no failure."""
    refused = judged({"updated": 1, "replica_failure": "exceeded quota"}, (A, OLD))
    _, suspicion = confirm(refused, None, 10.0)
    for now in (11.0, 10.0 + Doubt.REPLICAS.patience - 1):
        progress, suspicion = confirm(refused, suspicion, now)
        assert progress.state is WAITING
    progress, suspicion = confirm(refused, suspicion, 10.0 + Doubt.REPLICAS.patience)
    assert (progress.state, progress.reason) == (FAILED, "a pod could not be made: exceeded quota")


def test_one_doubt_does_not_add_to_another() -> None:
    """R2, R4: a deadline after a quota is seen for the first time."""
    _, suspicion = confirm(judged({"updated": 1, "replica_failure": "exceeded quota"}, (A, OLD)), None, 10.0)
    exceeded = judged({"updated": 1, "deadline_exceeded_at": "2026-01-02"})
    assert confirm(exceeded, suspicion, 500.0)[0].state is WAITING


GONE = replace(DONE, version="", template="none")


@pytest.mark.parametrize(("changed", "pods", "state", "reason"), [
    ({}, (), State.DONE, "no pod serves a version"),
    ({}, (replace(A, version="", ready=False),), State.DONE, "no pod serves a version"),
    ({}, (OLD, replace(A, terminating=True)), WAITING, "pods of a version still there: a, old"),
    ({"observed_generation": 4}, (), WAITING, "the controller has not seen the change yet"),
    ({"version": "3"}, (), FAILED, "someone else set MODEL_VERSION to '3'"),
    ({"uid": "other"}, (), FAILED, "the Deployment was deleted and made anew"),
    ({"paused": True}, (OLD,), FAILED, "the Deployment is paused"),
])  # fmt: skip
def test_drain_to_no_version(changed: dict[str, Any], pods: Sequence[Pod], state: State, reason: str) -> None:
    """R4: on the way to no version nobody has to be ready, and nobody of a version may be left."""
    written = replace(WRITTEN, version="", template="none")
    assert classify_drain(replace(GONE, **changed), pods, written=written) == Progress(state, reason)
