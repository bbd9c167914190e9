"""The candidate in a pod beside the tier: how it is made, judged, and always taken away."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

from airflow_provider_ragops.contract import LABEL_BLESSING
from airflow_provider_ragops.exceptions import ClusterError, LockLostError, UnreachableError
from airflow_provider_ragops.rollout.candidate_pod import Blessing, Verdict, build, ended
from airflow_provider_ragops.rollout.reading import version_of
from tests.fakes.kube import FakeTier, conflict, unreachable

from .conftest import EXAMPLE, TARGET, make_updater

Json = dict[str, Any]
PODS = "/api/v1/namespaces/ml-serving/pods"
NAME = "mlflow-serve-blessing-v2-7"


def bless(tier: FakeTier, guard: Callable[[], None] = lambda: None, **given: Any) -> Blessing:
    updater = make_updater(tier)
    given = {"token": 7, "timeout": 120, **given}
    return updater.bless(updater.read(), "2", EXAMPLE, guard=guard, **given)


def beside(tier: FakeTier) -> list[str]:
    """Pods beside the tier that are there now."""
    return [path for path in tier.objects if path.startswith(PODS)]


def test_good_candidate_is_blessed_and_leaves_no_trace(tier: FakeTier) -> None:
    """It loaded and answered; the pod is gone, and nothing of the tier was written."""
    assert bless(tier) == Blessing(Verdict.BLESSED)
    assert tier.asked == [NAME, NAME]
    assert tier.writes[-2:] == [("POST", f"{PODS}/{NAME}"), ("DELETE", f"{PODS}/{NAME}")]
    assert beside(tier) == []
    assert tier.version() == "1"


@pytest.mark.parametrize(("fault", "reason"), [
    ("crash", "exit code 1: Error"), ("other", "version mismatch"), ("nan", "no usable prediction"),
    ("hang", "no answer"),
])  # fmt: skip
def test_bad_candidate_is_found_before_the_tier_is_touched(tier: FakeTier, fault: str, reason: str) -> None:
    """It crashes, serves another version, answers nonsense or not at all: not blessed, and the pod is gone."""
    tier.broken_beside["2"] = fault
    blessing = bless(tier)
    assert blessing.state is Verdict.NOT_BLESSED
    assert reason in blessing.reason
    assert beside(tier) == []
    assert tier.version() == "1"


def test_no_room_is_not_the_versions_fault(tier: FakeTier) -> None:
    """R9: what the scheduler said, after the time for a node and not after the whole time; no word on the version."""
    tier.broken_beside["2"] = "no room"
    began = tier.time.clock()
    blessing = bless(tier, room=30)
    assert blessing.state is Verdict.NO_ROOM
    assert "1 Insufficient nvidia.com/gpu" in blessing.reason
    assert 30 <= tier.time.clock() - began < 40
    assert beside(tier) == []


@pytest.mark.parametrize(("seen", "raises"), [("exceeded quota: q, used: pods=3", False), ("cannot create", True)])
def test_refused_creation(tier: FakeTier, seen: str, raises: bool) -> None:
    """A quota that is used up is a lack of room; a missing right is named by the API server's own error."""
    def refuse(path: str, body: Json) -> Json:
        raise ClusterError(path, expected="success", seen=f"403 pods is forbidden: {seen}", action="Grant it.")

    tier.create = refuse  # type: ignore[method-assign]
    if raises:
        with pytest.raises(ClusterError, match="cannot create"):
            bless(tier)
    else:
        assert bless(tier) == Blessing(Verdict.NO_ROOM, f"403 pods is forbidden: {seen}")


def standing(tier: FakeTier, status: Json, **metadata: Any) -> None:
    """Give every pod that is created beside the tier this status."""
    created = tier.create

    def create(path: str, body: Json) -> Json:
        created(path, body)
        pod = tier.objects[f"{path}/{body['metadata']['name']}"]
        pod["status"] = status
        pod["metadata"] |= metadata
        return dict(pod)

    tier.create = create  # type: ignore[method-assign]


RUNNING = {"name": "mlflow-serve", "state": {"running": {}}}
CRASHED = {"name": "mlflow-serve", "state": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}}
NO_IMAGE = {"name": "mlflow-serve", "state": {"waiting": {"reason": "ImagePullBackOff", "message": "no such tag"}}}
INIT = {"name": "fetch", "state": {"terminated": {"exitCode": 2, "reason": "Error"}}}


@pytest.mark.parametrize(("status", "state", "reason"), [
    ({"phase": "Failed", "reason": "Evicted", "message": "low on memory"}, Verdict.NOT_POSSIBLE,
     "the pod was ended: Evicted: low on memory"),
    ({"phase": "Failed", "reason": "OutOfnvidia.com/gpu"}, Verdict.NOT_POSSIBLE, "ended: OutOfnvidia.com/gpu"),
    ({"phase": "Failed", "reason": "DeadlineExceeded"}, Verdict.NOT_BLESSED, "phase Failed: DeadlineExceeded"),
    ({"phase": "Succeeded"}, Verdict.NOT_BLESSED, "the pod ended in phase Succeeded"),
    ({"phase": "Failed", "containerStatuses": [CRASHED]}, Verdict.NOT_BLESSED, "exit code 137: OOMKilled"),
    ({"phase": "Running", "containerStatuses": [CRASHED]}, Verdict.NOT_BLESSED, "exit code 137: OOMKilled"),
    ({"phase": "Pending", "initContainerStatuses": [INIT]}, Verdict.NOT_BLESSED, "exit code 2: Error"),
    ({"phase": "Pending", "containerStatuses": [NO_IMAGE]}, Verdict.NOT_POSSIBLE,
     "not started after 120 s: ImagePullBackOff: no such tag"),
    ({"phase": "Pending"}, Verdict.NOT_POSSIBLE, "not started after 120 s: no reason given"),
])  # fmt: skip
def test_whose_fault_it_is(tier: FakeTier, status: Json, state: Verdict, reason: str) -> None:
    """K3: an eviction, a node without the resource or a missing image says nothing about the version; a crash does."""
    standing(tier, status)
    blessing = bless(tier)
    assert blessing.state is state
    assert reason in blessing.reason
    assert beside(tier) == []


@pytest.mark.parametrize(("words", "state", "reason", "seconds"), [
    ('{"status": "failed", "detail": "the digest differs"}', Verdict.NOT_BLESSED, "failed: the digest differs", 0),
    ('{"status": "loading", "detail": "MLflow does not answer"}', Verdict.NOT_BLESSED,
     "not ready after 120 s: loading: MLflow does not answer", 120),
    ("<html>", Verdict.NOT_BLESSED, "not ready after 120 s: it says nothing", 120),
])  # fmt: skip
def test_candidate_that_runs_and_is_not_ready(
    tier: FakeTier, words: str, state: Verdict, reason: str, seconds: float, monkeypatch: pytest.MonkeyPatch,
) -> None:
    """M4: one that gave up loading is not waited for; one that still tries is, and its last words are the reason."""
    standing(tier, {"phase": "Running", "containerStatuses": [RUNNING]})
    monkeypatch.setattr(tier, "proxy", lambda *args, **kwargs: (503, words))
    began = tier.time.clock()
    assert bless(tier) == Blessing(state, reason)
    assert seconds <= tier.time.clock() - began < seconds + 2


def test_unreached_pod_is_not_judged(tier: FakeTier) -> None:
    """Ready, but out of the API server's reach (a network policy): nothing is known."""
    tier.refuse = (503, "dial tcp: i/o timeout")
    blessing = bless(tier)
    assert (blessing.state, "not reached" in blessing.reason) == (Verdict.NOT_POSSIBLE, True)


@pytest.mark.parametrize("deleted", [True, False])
def test_pod_that_is_taken_away(tier: FakeTier, deleted: bool) -> None:
    """Deleted under us, or Terminating (preempted, its node is drained): nothing is known about the version."""
    standing(tier, {"phase": "Running"}, deletionTimestamp="now")

    def guard() -> None:
        if deleted:
            tier.objects.pop(f"{PODS}/{NAME}", None)

    blessing = bless(tier, guard)
    assert (blessing.state, "deleted" in blessing.reason) == (Verdict.NOT_POSSIBLE, True)


def test_outage_meanwhile_is_no_verdict(tier: FakeTier) -> None:
    """R12: an API server that restarts while the pod loads is waited for; the pod is deleted after it."""
    began = tier.time.clock()

    def down(verb: str, path: str) -> None:
        if beside(tier) and tier.time.clock() - began < 20:
            raise unreachable(path)

    tier.before = down
    assert bless(tier) == Blessing(Verdict.BLESSED)
    assert beside(tier) == []


def test_lost_reply_of_the_creation_makes_one_pod(tier: FakeTier) -> None:
    """K8: created, reply lost, 409 at the second try: it is our own pod, which the token in its name says."""
    tries = [0]

    def lose(verb: str, path: str) -> None:
        if verb == "POST":
            tries[0] += 1
            if tries[0] == 1:
                raise unreachable(path)

    tier.after = lose
    assert bless(tier) == Blessing(Verdict.BLESSED)
    assert tier.writes.count(("POST", f"{PODS}/{NAME}")) == 1
    assert beside(tier) == []


@pytest.mark.parametrize("error", [LockLostError, KeyboardInterrupt])
def test_pod_is_deleted_whatever_happens(tier: FakeTier, error: type[BaseException]) -> None:
    """A lost lock, or a stop: no look more, and the pod goes before the error does."""
    standing(tier, {"phase": "Running"})

    def guard() -> None:
        if beside(tier):
            if error is LockLostError:
                raise LockLostError("lock", expected="a hold", seen="none", action="Retry.")
            raise error

    with pytest.raises(error):
        bless(tier, guard)
    assert beside(tier) == []
    assert tier.asked == []


def test_failed_deletion_does_not_hide_the_error(tier: FakeTier, caplog: pytest.LogCaptureFixture) -> None:
    """The pod that stays is logged; the lost lock is what is raised."""
    def guard() -> None:
        if beside(tier):
            raise LockLostError("lock", expected="a hold", seen="none", action="Retry.")

    def down(verb: str, path: str) -> None:
        if verb == "DELETE":
            raise unreachable(path)

    tier.before = down
    with pytest.raises(LockLostError):
        bless(tier, guard)
    assert f"pod {NAME} stays; the next try deletes it" in caplog.text


def test_leftover_of_a_killed_try_is_swept_first(tier: FakeTier) -> None:
    """X1: a pod of the same target that a killed process left is deleted before another is made, its room free."""
    found = make_updater(tier).read()
    tier.create(PODS, build(found, None, TARGET, "9", 3, 60))
    left = f"{PODS}/mlflow-serve-blessing-v9-3"
    assert beside(tier) == [left]
    assert bless(tier) == Blessing(Verdict.BLESSED)
    assert tier.writes.index(("DELETE", left)) < tier.writes.index(("POST", f"{PODS}/{NAME}"))
    assert beside(tier) == []


def test_sweep_alone(tier: FakeTier) -> None:
    """X1: what a repair does; nothing to sweep writes nothing."""
    updater = make_updater(tier)
    tier.create(PODS, build(updater.read(), None, TARGET, "9", 3, 60))
    updater.sweep(lambda: None)
    assert beside(tier) == []
    writes = len(tier.writes)
    updater.sweep(lambda: None)
    assert len(tier.writes) == writes


def test_room_is_free_when_it_returns(tier: FakeTier) -> None:
    """A Terminating pod holds its GPU: it is waited for; one that never goes is an error that says what to do."""
    delete, asked = tier.delete, [0]

    def slowly(path: str, uid: str) -> None:
        asked[0] += 1
        if asked[0] > 3:
            delete(path, uid)

    tier.delete = slowly  # type: ignore[method-assign]
    assert bless(tier) == Blessing(Verdict.BLESSED)
    assert asked == [4]
    tier.delete = lambda path, uid: None  # type: ignore[method-assign]
    with pytest.raises(UnreachableError, match=r"pod ml-serving/mlflow-serve-blessing-v2-8: .*--force"):
        bless(tier, token=8)


def test_deletion_is_of_this_very_pod(tier: FakeTier) -> None:
    """A pod of the same name and another uid is not ours to delete, and is not waited for."""
    def swap(verb: str, path: str) -> None:
        if verb == "DELETE" and path in tier.objects:
            tier.objects[path]["metadata"]["uid"] = "another"

    tier.before = swap
    assert bless(tier) == Blessing(Verdict.BLESSED)
    assert beside(tier) == [f"{PODS}/{NAME}"]


def test_log_of_a_bad_candidate_is_kept(tier: FakeTier, caplog: pytest.LogCaptureFixture) -> None:
    """Hours later there is no pod to ask: its last lines are in the task's log; where there is no log, that is said."""
    tier.broken_beside["2"] = "nan"
    with caplog.at_level(logging.WARNING):
        bless(tier)
    assert "all quiet" in caplog.text

    def no_log(path: str, query: Any = None) -> str:
        raise ClusterError(path, expected="success", seen="400 container is waiting to start", action="Read.")

    tier.text = no_log  # type: ignore[method-assign]
    with caplog.at_level(logging.WARNING):
        assert bless(tier, token=8).state is Verdict.NOT_BLESSED
    assert "(no log: 400 container is waiting to start)" in caplog.text


DEPLOYMENT: Json = {
    "metadata": {"name": "mlflow-serve", "uid": "uid-1"},
    "spec": {
        "selector": {"matchLabels": {"app": "serve"}, "matchExpressions": [{"key": "tier", "operator": "Exists"}]},
        "template": {
            "metadata": {
                "labels": {"app": "serve", "tier": "a", "svc": "x", "team": "t"}, "annotations": {"inject": "yes"},
            },
            "spec": {
                "restartPolicy": "Always", "terminationGracePeriodSeconds": 40, "serviceAccountName": "serve",
                "containers": [
                    {"name": "mlflow-serve", "image": "i", "env": [{"name": "MODEL_VERSION", "value": "1"}],
                     "lifecycle": {"preStop": {"sleep": {"seconds": 5}}, "postStart": {"sleep": {"seconds": 1}}}},
                    {"name": "sidecar", "lifecycle": {"preStop": {"sleep": {"seconds": 5}}}},
                ],
            },
        },
    },
}


def test_pod_is_the_tiers_own_and_nobody_elses() -> None:
    """The tier's image, account and settings with the candidate's version; out of sight of every selector."""
    service = {"spec": {"selector": {"svc": "x"}}}
    pod = build(DEPLOYMENT, service, TARGET, "2", 7, 180.5)
    metadata, spec = pod["metadata"], pod["spec"]
    assert metadata["name"] == NAME
    assert metadata["labels"] == {"team": "t", LABEL_BLESSING: "mlflow-serve"}
    assert metadata["annotations"] == {"inject": "yes"}
    assert version_of(pod, "mlflow-serve") == "2"
    assert (spec["containers"][0]["image"], spec["serviceAccountName"]) == ("i", "serve")
    # A Service sends requests to Ready pods only: this one never is, whatever selects it.
    assert spec["readinessGates"] == [{"conditionType": LABEL_BLESSING}]
    assert (spec["restartPolicy"], spec["activeDeadlineSeconds"]) == ("Never", 180)
    assert spec["terminationGracePeriodSeconds"] == 5
    assert [one["lifecycle"] for one in spec["containers"]] == [{"postStart": {"sleep": {"seconds": 1}}}, {}]
    owner = metadata["ownerReferences"][0]
    assert (owner["kind"], owner["uid"], owner["controller"]) == ("Deployment", "uid-1", False)
    assert DEPLOYMENT["spec"]["template"]["spec"]["restartPolicy"] == "Always"


def test_name_is_a_dns_label_whatever_the_target_is_called() -> None:
    """A Deployment with the longest allowed name gives a pod name of at most 63 characters, another for each token."""
    from dataclasses import replace

    target = replace(TARGET, deployment="d" * 63)
    names = {build(DEPLOYMENT, None, target, "2", token, 60)["metadata"]["name"] for token in (1, 2)}
    assert len(names) == 2
    assert all(len(name) <= 63 for name in names)


def test_pod_that_may_still_turn_ready_is_not_ended() -> None:
    """An init container that is through, and a container that runs."""
    done = {"name": "fetch", "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}}
    status = {"phase": "Running", "initContainerStatuses": [done], "containerStatuses": [RUNNING]}
    assert ended({"metadata": {}, "status": status}, "mlflow-serve") is None


def test_conflict_of_the_fake_is_the_real_one() -> None:
    """The fake refuses a second pod of one name, as the API server does."""
    tier = FakeTier()
    body = build(make_updater(tier).read(), None, TARGET, "2", 7, 60)
    tier.create(PODS, body)
    with pytest.raises(type(conflict(""))):
        tier.create(PODS, body)
