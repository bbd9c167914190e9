"""Objects of the API server, with fields missing, null or of another container."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_ragops.rollout.reading import read_pod, read_rollout, selector_text

CONTAINERS = [{"name": "sidecar", "env": [{"name": "MODEL_VERSION", "value": "9"}]},
              {"name": "serve", "env": [{"name": "MODEL_VERSION", "value": "2"}]}]
TEMPLATE = {"spec": {"containers": CONTAINERS}}


def deployment(spec: dict[str, Any] | None = None, status: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"metadata": {"uid": "u", "generation": 1}, "spec": {"template": TEMPLATE, **(spec or {})}, "status": status}


def pod(status: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    return {"metadata": {"name": "p", **metadata}, "spec": {"containers": CONTAINERS}, "status": status}


@pytest.mark.parametrize("status", [None, {}, {"conditions": None, "replicas": None}])
def test_missing_status_counts_as_nothing(status: dict[str, Any] | None) -> None:
    """R4: a Deployment that no controller has seen yet has no counters and no conditions."""
    seen = read_rollout(deployment(status=status), "serve")
    assert (seen.version, seen.observed_generation, seen.replicas, seen.available) == ("2", 0, 0, 0)
    assert (seen.deadline_exceeded_at, seen.replica_failure) == ("", "")


@pytest.mark.parametrize(("spec", "desired"), [({}, 1), ({"replicas": None}, 1), ({"replicas": 0}, 0)])
def test_replicas_null_is_one(spec: dict[str, Any], desired: int) -> None:
    """R4: null and missing mean one, and only 0 means none."""
    assert read_rollout(deployment(spec), "serve").desired == desired


def test_conditions_are_read_with_their_reasons() -> None:
    """R2, R4: when the deadline was exceeded, and why no pod can be made; only where the condition says so."""
    conditions = [
        {"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded", "lastUpdateTime": "now"},
        {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "exceeded quota: q"},
    ]
    seen = read_rollout(deployment(status={"conditions": conditions}), "serve")
    assert (seen.deadline_exceeded_at, seen.replica_failure) == ("now", "FailedCreate: exceeded quota: q")
    over = [{**conditions[0], "reason": "NewReplicaSetAvailable"}, {**conditions[1], "status": "False"}]
    seen = read_rollout(deployment(status={"conditions": over}), "serve")
    assert (seen.deadline_exceeded_at, seen.replica_failure) == ("", "")


@pytest.mark.parametrize(("strategy", "makes_room"), [
    (None, False), ({"type": "Recreate"}, False), ({"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}, False),
    ({"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}, True),
])  # fmt: skip
def test_whether_a_pod_goes_first(strategy: dict[str, Any] | None, makes_room: bool) -> None:
    """R9: then a full quota refuses its successor for as long as it leaves, which is no failure."""
    assert read_rollout(deployment({"strategy": strategy}), "serve").makes_room is makes_room


def test_any_change_of_the_template_shows() -> None:
    """R4: a restart asked for by hand leaves the version and changes the template."""
    restarted = {**TEMPLATE, "metadata": {"annotations": {"kubectl.kubernetes.io/restartedAt": "now"}}}
    before, after = (read_rollout(deployment({"template": one}), "serve") for one in (TEMPLATE, restarted))
    assert before.version == after.version
    assert before.template != after.template


@pytest.mark.parametrize(("reason", "restarts", "hopeless"), [
    ("ImagePullBackOff", 5, False), ("CrashLoopBackOff", 1, False), ("CrashLoopBackOff", 2, True),
    ("ContainerCreating", 0, False),
])  # fmt: skip
def test_trouble_is_told_from_patience(reason: str, restarts: int, hopeless: bool) -> None:
    """A pod that only needs time is waited for; one that can't come up is named at once."""
    status = {"containerStatuses": [{"restartCount": restarts, "state": {"waiting": {"reason": reason}}}]}
    assert bool(read_pod(pod(status), "serve").trouble) is hopeless


UNSCHEDULABLE = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
                 "message": "0/3 nodes are available: 3 Insufficient nvidia.com/gpu."}


@pytest.mark.parametrize(("status", "placed", "waits"), [
    ({"conditions": [UNSCHEDULABLE]}, False,
     "not scheduled: Unschedulable: 0/3 nodes are available: 3 Insufficient nvidia.com/gpu."),
    ({"containerStatuses": [{"state": {"waiting": {"reason": "ImagePullBackOff", "message": "no such tag"}}}]}, True,
     "ImagePullBackOff: no such tag"),
    ({"initContainerStatuses": [{"state": {"waiting": {"reason": "CreateContainerConfigError"}}}],
      "containerStatuses": [{"state": {"waiting": {"reason": "PodInitializing"}}}]}, True,
     "CreateContainerConfigError"),
    ({"conditions": [{"type": "PodScheduled", "status": "True"}]}, True, ""),
    ({"conditions": [UNSCHEDULABLE, {"type": "Ready", "status": "True"}]}, False, ""),
])  # fmt: skip
def test_pod_carries_what_it_waits_for(status: dict[str, Any], placed: bool, waits: str) -> None:
    """R9: in the scheduler's or the kubelet's own words; nothing once it is Ready."""
    seen = read_pod(pod(status), "serve")
    assert (seen.placed, seen.waits) == (placed, waits)


def test_only_the_serving_container_counts_as_running() -> None:
    """A sidecar that runs while the server is still being created says nothing."""
    states = [{"name": "sidecar", "state": {"running": {}}}, {"name": "serve", "state": {"waiting": {}}}]
    assert not read_pod(pod({"containerStatuses": states}), "serve").running
    states[1]["state"] = {"running": {}}
    assert read_pod(pod({"containerStatuses": states}), "serve").running


def test_ended_and_leaving_pods_are_told() -> None:
    """An evicted pod is nobody's; a Terminating one still is."""
    assert read_pod(pod({"phase": "Failed"}), "serve").ended
    assert read_pod(pod({"phase": "Running"}, deletionTimestamp="now"), "serve").terminating


def test_selectors_of_every_kind() -> None:
    """A Deployment may select by expressions alone: its pods are never "all pods of the namespace"."""
    expressions = [
        {"key": "tier", "operator": "In", "values": ["b", "a"]}, {"key": "x", "operator": "NotIn", "values": ["y"]},
        {"key": "e", "operator": "Exists"}, {"key": "d", "operator": "DoesNotExist"},
    ]
    text = selector_text({"matchLabels": {"app": "serve"}, "matchExpressions": expressions})
    assert text == "!d,app=serve,e,tier in (a,b),x notin (y)"
    assert selector_text({"matchLabels": None, "matchExpressions": expressions[2:3]}) == "e"
