"""Can one more pod be scheduled, and how does the rollout go then?"""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_ragops.exceptions import ReleaseRefusedError
from airflow_provider_ragops.rollout.feasibility import (
    Feasibility,
    Fit,
    Room,
    judge,
    strategy_for,
    undo_strategy,
)
from airflow_provider_ragops.rollout.plan import MAKE_ROOM, USUAL, Strategy

Json = dict[str, Any]
GPU = "nvidia.com/gpu"


def pod(requests: Json | None = None, *, node: str = "", phase: str = "Running", limits: Json | None = None,
        **spec: Any) -> Json:
    resources = {"requests": requests, "limits": limits}
    placed = {"nodeName": node} if node else {}
    whole = {"containers": [{"name": "c", "resources": resources}], **placed, **spec}
    return {"spec": whole, "status": {"phase": phase}}


def node(name: str = "n1", *, labels: Json | None = None, ready: str = "True", allocatable: Json | None = None,
         **spec: Any) -> Json:
    given = {"cpu": "4", "memory": "8Gi", "pods": "110", **(allocatable or {})}
    conditions = [{"type": "Ready", "status": ready}]
    return {
        "metadata": {"name": name, "labels": labels}, "spec": spec,
        "status": {"allocatable": given, "conditions": conditions},
    }


def quota(hard: Json, used: Json | None = None, **spec: Any) -> Json:
    return {"metadata": {"name": "q"}, "spec": spec, "status": {"hard": hard, "used": used}}


def fit(
    template: Json, nodes: list[Json], pods: list[Json] | None = None, quotas: list[Json] | None = None,
) -> Feasibility:
    return judge(template, Room(nodes, pods or [], quotas or []))


GPU_NODES = [node(name, allocatable={GPU: "1"}) for name in ("n1", "n2", "n3")]
TAKEN = [pod({GPU: "1"}, node=name) for name in ("n1", "n2", "n3")]


def test_last_gpu_taken() -> None:
    """R9: the reason says what is wanted, what is free, and on how many nodes."""
    seen = fit(pod({GPU: "1"}), GPU_NODES, TAKEN)
    assert seen == Feasibility(Fit.NO, "nvidia.com/gpu: 1 wanted, 0 free on 3 nodes")


def test_free_gpu() -> None:
    """R9: one node that has the room is enough, and is named."""
    assert fit(pod({GPU: "1"}), GPU_NODES, TAKEN[:2]) == Feasibility(Fit.FITS, "node n3 has room for a pod more")


@pytest.mark.parametrize(("wanted", "pods", "reason"), [
    ({"cpu": "4100m"}, [], "cpu: 4.1 wanted, at most 4 free on 1 node"),
    ({"cpu": "500m"}, [pod({"cpu": "3600m"}, node="n1")], "cpu: 0.5 wanted, at most 0.4 free on 1 node"),
    ({"memory": "8193Mi"}, [], "memory: 8193Mi wanted, at most 8192Mi free on 1 node"),
    ({"memory": "30Gi"}, [pod({"memory": "6Gi"}, node="n1")], "memory: 30Gi wanted, at most 2048Mi free on 1 node"),
    ({"memory": "600Mi"}, [pod({"memory": "7.5Gi"}, node="n1")], "memory: 600Mi wanted, at most 512Mi free on 1 node"),
    ({GPU: "1"}, [], "nvidia.com/gpu: 1 wanted, 0 free on 1 node"),
    ({"cpu": "3", "memory": "3Gi"}, [pod({"cpu": "2", "memory": "6Gi"}, node="n1")],
     "cpu: 3 wanted, at most 2 free on 1 node; memory: 3072Mi wanted, at most 2048Mi free on 1 node"),
])  # fmt: skip
def test_what_lacks_is_said_in_a_persons_units(wanted: Json, pods: list[Json], reason: str) -> None:
    """R9: quantities of every spelling are compared as numbers."""
    assert fit(pod(wanted), [node()], pods) == Feasibility(Fit.NO, reason)


@pytest.mark.parametrize(("other", "fits"), [
    (pod({"cpu": "4"}, node="n1"), False), (pod({"cpu": "4"}, node="n1", phase="Pending"), False),
    (pod({"cpu": "4"}, node="n1", phase="Succeeded"), True), (pod({"cpu": "4"}, node="n1", phase="Failed"), True),
    (pod({"cpu": "4"}, node="n2"), True), (pod({"cpu": "4"}), True), (pod(limits={"cpu": "4"}, node="n1"), False),
    (pod({"cpu": "1"}, limits={"cpu": "4"}, node="n1"), True),
])  # fmt: skip
def test_which_pods_hold_room(other: Json, fits: bool) -> None:
    """R9: those of this node that have not ended; a limit without a request counts as one."""
    assert (fit(pod({"cpu": "1"}), [node()], [other]).state is Fit.FITS) is fits


def test_leaving_pod_holds_its_room() -> None:
    """R9: a Terminating pod has its GPU until it is gone: neither fits nor a reason to refuse."""
    leaving = {**pod({GPU: "1"}, node="n1"), "metadata": {"deletionTimestamp": "now"}}
    seen = fit(pod({GPU: "1"}), [node(allocatable={GPU: "1"})], [leaving])
    assert seen == Feasibility(Fit.UNKNOWN, "node n1 has room once its Terminating pods are gone")
    assert fit(pod({GPU: "2"}), [node(allocatable={GPU: "1"})], [leaving]).state is Fit.NO


def test_nodes_take_a_number_of_pods() -> None:
    """R9: a node full of pods that ask for nothing takes none more."""
    seen = fit(pod(), [node(allocatable={"pods": "2"})], [pod(node="n1"), pod(node="n1")])
    assert seen == Feasibility(Fit.NO, "pods: 1 wanted, 0 free on 1 node")


def test_each_node_lacks_something_else() -> None:
    """R9: enough of each somewhere, and of both nowhere."""
    nodes = [node("n1", allocatable={"cpu": "1"}), node("n2", allocatable={"memory": "1Gi"})]
    seen = fit(pod({"cpu": "2", "memory": "2Gi"}), nodes)
    assert seen == Feasibility(
        Fit.NO, "cpu: 2 wanted, at most 1 free on 1 node; memory: 2048Mi wanted, at most 1024Mi free on 1 node",
    )


def container(cpu: str, **more: Any) -> Json:
    return {"name": "x", "resources": {"requests": {"cpu": cpu}}, **more}


@pytest.mark.parametrize(("spec", "cpu"), [
    ({"containers": [container("1"), container("2")]}, 3),
    ({"containers": [container("1")], "initContainers": [container("3"), container("2")]}, 3),
    ({"containers": [container("2")], "initContainers": [container("1")]}, 2),
    ({"containers": [container("1")], "initContainers": [container("1", restartPolicy="Always"), container("2")]}, 3),
    ({"containers": [container("1")], "initContainers": [container("2"), container("1", restartPolicy="Always")]}, 2),
    ({"containers": [container("1")], "overhead": {"cpu": "500m"}}, 1.5),
    ({"containers": [container("1"), container("1")], "resources": {"requests": {"cpu": "3"}}}, 3),
])  # fmt: skip
def test_pods_are_counted_as_the_scheduler_counts(spec: Json, cpu: float) -> None:
    """R9: all containers together, or the largest moment of the start; sidecars throughout; and the overhead."""
    assert fit({"spec": spec}, [node(allocatable={"cpu": str(cpu)})]).state is Fit.FITS
    assert fit({"spec": spec}, [node(allocatable={"cpu": str(cpu - 0.001)})]).state is Fit.NO


TAINT = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}


def affinity(*terms: Json) -> Json:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}
    return {"affinity": {"nodeAffinity": required}}


def expression(key: str, operator: str, *values: str, kind: str = "matchExpressions") -> Json:
    return {kind: [{"key": key, "operator": operator, "values": list(values)}]}


@pytest.mark.parametrize(("there", "spec", "refused"), [
    (node(), {}, ""),
    (node(unschedulable=True), {}, "cordoned"),
    (node(unschedulable=True), {"tolerations": [{"operator": "Exists"}]}, ""),
    (node(ready="Unknown"), {}, "not ready"),
    (node(taints=[TAINT]), {}, "taint gpu"),
    (node(taints=[{**TAINT, "effect": "NoExecute"}]), {}, "taint gpu"),
    (node(taints=[{**TAINT, "effect": "PreferNoSchedule"}]), {}, ""),
    (node(taints=[TAINT]), {"tolerations": [{"key": "gpu", "value": "yes"}]}, ""),
    (node(taints=[TAINT]), {"tolerations": [{"key": "gpu", "value": "no"}]}, "taint gpu"),
    (node(taints=[TAINT]), {"tolerations": [{"key": "other", "operator": "Exists"}]}, "taint gpu"),
    (node(taints=[TAINT]), {"tolerations": [{"key": "gpu", "operator": "Exists", "effect": "NoExecute"}]}, "taint gpu"),
    (node(taints=[TAINT]), {"tolerations": [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}]}, ""),
    (node(labels={"zone": "a"}), {"nodeSelector": {"zone": "a"}}, ""),
    (node(labels={"zone": "b"}), {"nodeSelector": {"zone": "a"}}, "node selector"),
    (node(labels={"zone": "b"}), affinity(expression("zone", "In", "a")), "node affinity"),
    (node(labels={"zone": "b"}), affinity(expression("zone", "In", "a"), expression("zone", "In", "b")), ""),
    (node(labels={"zone": "b"}), affinity(expression("zone", "NotIn", "b")), "node affinity"),
    (node(), affinity(expression("zone", "NotIn", "b")), ""),
    (node(), affinity(expression("zone", "Exists")), "node affinity"),
    (node(labels={"zone": "b"}), affinity(expression("zone", "DoesNotExist")), "node affinity"),
    (node(labels={"n": "5"}), affinity(expression("n", "Gt", "4")), ""),
    (node(labels={"n": "5"}), affinity(expression("n", "Gt", "5")), "node affinity"),
    (node(labels={"n": "5"}), affinity(expression("n", "Lt", "6")), ""),
    (node(labels={"n": "x"}), affinity(expression("n", "Gt", "4")), "node affinity"),
    (node("n1"), affinity(expression("metadata.name", "In", "n2", kind="matchFields")), "node affinity"),
    (node("n1"), affinity(expression("metadata.name", "In", "n1", kind="matchFields")), ""),
    (node(), affinity({}), "node affinity"),
])  # fmt: skip
def test_which_nodes_take_the_pod(there: Json, spec: Json, refused: str) -> None:
    """R9: cordons, taints, selectors and required affinity, as the scheduler reads them."""
    seen = fit(pod(**spec), [there])
    expected = f"none of 1 nodes takes the pod: 1 {refused}" if refused else "node n1 has room for a pod more"
    assert (seen.state, seen.reason) == (Fit.NO if refused else Fit.FITS, expected)


def test_only_nodes_that_take_the_pod_count() -> None:
    """R9: a free node behind a taint does not help, and is not among those that lack something."""
    tainted = node("n2", allocatable={GPU: "8"}, taints=[TAINT])
    seen = fit(pod({GPU: "1"}), [node("n1", allocatable={GPU: "1"}), tainted], TAKEN[:1])
    assert seen == Feasibility(Fit.NO, "nvidia.com/gpu: 1 wanted, 0 free on 1 node")
    assert fit(pod(), []).reason == "the cluster has no nodes"


@pytest.mark.parametrize(("spec", "word"), [
    ({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{}]}}}, "affinity to other"),
    ({"topologySpreadConstraints": [{"whenUnsatisfiable": "DoNotSchedule"}]}, "topology spread"),
    ({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]}, "volumes"),
    ({"resourceClaims": [{"name": "gpu"}]}, "resource claims"), ({"schedulerName": "mine"}, "scheduler mine"),
    ({"initContainers": [{"name": "i", "ports": [{"hostPort": 80}]}]}, "ports of the host"),
    (affinity(expression("zone", "Near", "a")), "operator Near"),
])  # fmt: skip
def test_what_is_not_judged_is_unknown(spec: Json, word: str) -> None:
    """R9: room there may be, but another rule may leave the node out. Where there is no room, none of these helps."""
    seen = fit(pod({"cpu": "1"}, **spec), [node()])
    assert seen.state is Fit.UNKNOWN
    assert word in seen.reason
    if "Near" not in word:
        assert fit(pod({"cpu": "9"}, **spec), [node()]).state is Fit.NO


def test_preferences_do_not_matter() -> None:
    """R9: what the scheduler only prefers never leaves a node out."""
    preferred = {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{}]}}
    spread = [{"whenUnsatisfiable": "ScheduleAnyway"}]
    assert fit(pod(affinity=preferred, topologySpreadConstraints=spread), [node()]).state is Fit.FITS


def test_priority_may_make_room() -> None:
    """R9: a pod that may push others out is not refused by arithmetic."""
    seen = fit(pod({GPU: "1"}, priorityClassName="serving"), GPU_NODES, TAKEN)
    assert seen.state is Fit.UNKNOWN
    assert "priority class serving may make room" in seen.reason


@pytest.mark.parametrize(("hard", "used", "reason"), [
    ({"pods": "3"}, {"pods": "3"}, "ResourceQuota q: pods: 1 wanted, 0 of 3 free"),
    ({"requests.cpu": "2"}, {"requests.cpu": "1500m"}, "ResourceQuota q: requests.cpu: 1 wanted, 0.5 of 2 free"),
    ({"cpu": "2"}, {"cpu": "2"}, "ResourceQuota q: cpu: 1 wanted, 0 of 2 free"),
    ({"limits.memory": "30Gi"}, {"limits.memory": "29Gi"},
     "ResourceQuota q: limits.memory: 2048Mi wanted, 1024Mi of 30Gi free"),
    ({f"requests.{GPU}": "1"}, {f"requests.{GPU}": "1"}, f"ResourceQuota q: requests.{GPU}: 1 wanted, 0 of 1 free"),
    ({"count/pods": "1"}, {"count/pods": "2"}, "ResourceQuota q: count/pods: 1 wanted, 0 of 1 free"),
])  # fmt: skip
def test_quota_without_room(hard: Json, used: Json, reason: str) -> None:
    """R4, R9: what the namespace may not have, no node can give; also where nodes can't be read."""
    wanted = pod({"cpu": "1", GPU: "1"}, limits={"memory": "2Gi"})
    assert fit(wanted, [node(allocatable={GPU: "9"})], quotas=[quota(hard, used)]) == Feasibility(Fit.NO, reason)
    assert judge(wanted, Room(None, None, [quota(hard, used)], "403")) == Feasibility(Fit.NO, reason)


@pytest.mark.parametrize(("found", "state"), [
    (quota({"pods": "3"}, {"pods": "2"}), Fit.FITS), (quota({"pods": "3"}), Fit.FITS),
    (quota({"services": "0", "requests.storage": "0", "persistentvolumeclaims": "0"}), Fit.FITS),
    (quota({"limits.cpu": "4"}), Fit.UNKNOWN), (quota({"requests.memory": "1Gi"}), Fit.UNKNOWN),
    (quota({f"requests.{GPU}": "0"}), Fit.FITS),
    (quota({"pods": "0"}, scopes=["Terminating"]), Fit.FITS), (quota({"pods": "0"}, scopes=["BestEffort"]), Fit.FITS),
    (quota({"pods": "0"}, scopes=["NotTerminating"]), Fit.NO),
    (quota({"pods": "0"}, scopes=["CrossNamespacePodAffinity"]), Fit.UNKNOWN),
    (quota({"pods": "0"}, scopeSelector={"matchExpressions": []}), Fit.UNKNOWN),
])  # fmt: skip
def test_quotas_that_do_not_say_no(found: Json, state: Fit) -> None:
    """R9: room left; about other objects; for other pods; or a default that only a LimitRange could give."""
    assert fit(pod({"cpu": "1"}), [node()], quotas=[found]).state is state


@pytest.mark.parametrize(("room", "state"), [
    (Room(None, None, [], "nodes can't be read (403)"), Fit.UNKNOWN),
    (Room([node()], None, [], "pods can't be read (403)"), Fit.UNKNOWN),
    (Room([node()], [], None, "resourcequotas can't be read (403)"), Fit.UNKNOWN),
    (Room([node()], [pod({"cpu": "4"}, node="n1")], None, "resourcequotas can't be read (403)"), Fit.NO),
])  # fmt: skip
def test_what_may_not_be_read_is_unknown(room: Room, state: Fit) -> None:
    """R9: unknown is no refusal; what could be read still counts."""
    seen = judge(pod({"cpu": "1"}), room)
    assert seen.state is state
    if state is Fit.UNKNOWN:
        assert seen.reason == room.unread


NO, FITS, UNKNOWN = (Feasibility(state, "because") for state in (Fit.NO, Fit.FITS, Fit.UNKNOWN))


@pytest.mark.parametrize(("seen", "allowed", "serving", "strategy"), [
    (FITS, False, True, USUAL), (FITS, True, True, USUAL), (UNKNOWN, False, True, USUAL), (UNKNOWN, True, True, USUAL),
    (NO, True, True, MAKE_ROOM), (NO, False, False, MAKE_ROOM), (NO, True, False, MAKE_ROOM),
])  # fmt: skip
def test_strategy_that_does_not_wait_for_ever(
    seen: Feasibility, allowed: bool, serving: bool, strategy: Strategy,
) -> None:
    """R9: one more where that fits or can't be known; one less where it does not and the target, or a tier that serves
    nothing yet, permits it."""
    assert strategy_for(seen, allow_unavailable=allowed, subject="ml/serve", serving=serving) == strategy


def test_no_room_and_no_permission_is_refused() -> None:
    """R9: refused before anything is touched, with what lacks and both ways out."""
    with pytest.raises(ReleaseRefusedError, match=r"ml/serve.*saw because.*Nothing was touched.*set allow_unavailable"):
        strategy_for(NO, allow_unavailable=False, subject="ml/serve")


@pytest.mark.parametrize(("seen", "strategy"), [(FITS, USUAL), (NO, Strategy(1, 1)), (UNKNOWN, Strategy(1, 1))])
def test_way_back_never_waits_for_room(seen: Feasibility, strategy: Strategy) -> None:
    """R9, R11: with the last GPU in the hands of the bad version, an undo that waits for another would never end."""
    assert undo_strategy(seen) == strategy
