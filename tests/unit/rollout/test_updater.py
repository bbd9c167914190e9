"""Following a rollout: what ends it, what does not, and what it says."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

from airflow_provider_ragops.exceptions import ClusterError, ConflictError, TargetError, UnreachableError
from airflow_provider_ragops.rollout.feasibility import Feasibility, Fit
from airflow_provider_ragops.rollout.plan import DRAIN, MAKE_ROOM, Change
from airflow_provider_ragops.rollout.status import State
from tests.fakes.kube import FakeTier, unreachable

from .conftest import EXAMPLE, TARGET, make_updater, roll


class Shaky(FakeTier):
    """A tier whose API server is down for ``outage`` seconds from call number ``at`` on (0: never)."""

    def __init__(self, at: int = 0, outage: float = 0.0) -> None:
        super().__init__(replicas=4)
        self.at, self.outage = at, outage
        self.calls, self.up_again = 0, 0.0
        self.counting = False

    def _answers(self, path: str) -> None:
        if not self.counting:
            return
        self.calls += 1
        if self.calls == self.at:
            self.up_again = self.time.clock() + self.outage
        if self.time.clock() < self.up_again:
            raise unreachable(path)

    def get(self, path: str) -> Any:
        self._answers(path)
        return super().get(path)

    def list(self, path: str, selector: str, fields: str = "") -> Any:
        self._answers(path)
        return super().list(path, selector, fields)

    def proxy(self, path: str, *args: Any, **kwargs: Any) -> Any:
        self._answers(path)
        return super().proxy(path, *args, **kwargs)


def follow(tier: Shaky, version: str) -> Any:
    updater = make_updater(tier)
    written = updater.write(updater.read(), Change("{}", version))
    tier.counting = True
    return updater.wait(written, version, EXAMPLE, 60, lambda: None)


def test_outage_at_any_call_is_no_verdict(evidence) -> None:
    """R12: an API server that restarts at any moment, for a moment or for long, neither ends nor fails a rollout."""
    whole = Shaky()
    assert follow(whole, "1").state is State.DONE
    assert whole.calls > 10
    for at in range(1, whole.calls + 1):
        for outage in (0.5, 2.5, 20.0):
            tier = Shaky(at, outage)
            progress = follow(tier, "1")
            assert progress.state is State.DONE, (at, outage, progress.reason)
            evidence["faults"] += 1


def test_outage_to_the_deadline_is_told_as_such() -> None:
    """R12: when time runs out while the API server is down, that is the reason, and the version is not to blame."""
    tier = Shaky(3, 1000.0)
    progress = follow(tier, "1")
    assert (progress.state, progress.blames_version) == (State.FAILED, False)
    assert "not finished after 60 s" in progress.reason
    assert "expected an answer" in progress.reason


def test_overall_deadline_ends_slow_pods() -> None:
    """R7: ten pods, each inside the progress deadline, which starts anew with each: the overall one ends it."""
    slow, patient = (FakeTier(replicas=10) for _ in range(2))
    progress = roll(slow, "1", poll=50.0, timeout=300)
    assert progress.state is State.FAILED
    assert progress.reason.startswith("not finished after 300 s: 6 of 10 pods updated")
    assert roll(patient, "1", poll=50.0, timeout=900).state is State.DONE


def test_pod_that_serves_another_version_is_a_mismatch(tier: FakeTier) -> None:
    """R10: Ready, and by its own word another version: failed with the first pod, and the version is to blame."""
    tier.broken["2"] = "other"
    progress = roll(tier, "2")
    assert (progress.state, progress.blames_version) == (State.FAILED, True)
    assert "version mismatch: it serves version '999', not '2'" in progress.reason
    assert tier.most_pods["2"] == 1


@pytest.mark.parametrize(("fault", "reason"), [
    ("crash", "CrashLoopBackOff after 3 restarts"), ("nan", "no usable prediction"), ("hang", "no answer"),
])  # fmt: skip
def test_bad_pod_ends_the_rollout(tier: FakeTier, fault: str, reason: str) -> None:
    """The first bad pod ends it, with its name."""
    tier.broken["2"] = fault
    progress = roll(tier, "2")
    assert (progress.state, progress.blames_version) == (State.FAILED, True)
    assert reason in progress.reason
    assert "pod pod-" in progress.reason


@pytest.mark.parametrize("fault", ["crash", "other", "hang"])
def test_patient_waits_to_the_deadline(tier: FakeTier, fault: str) -> None:
    """R11: an undo has nowhere else to go: a pod that does badly is asked again until time is up, and named then."""
    tier.broken["2"] = fault
    progress = roll(tier, "2", patient=True, example=None)
    assert progress.state is State.FAILED
    assert progress.reason.startswith("not finished after 60 s: ")
    assert "pod-" in progress.reason


def test_patient_succeeds_when_it_passes(tier: FakeTier) -> None:
    """R11: a pod that answers badly for a while and then well has come back."""
    tier.broken["2"] = "other"

    def mend() -> None:
        if tier.time.clock() > 1030:
            tier.broken.clear()

    assert roll(tier, "2", patient=True, guard=mend).state is State.DONE


def pending(tier: FakeTier) -> Callable[[str, str], list[Any]]:
    """The surge pod finds no node: the old ones stay."""
    pods = [*tier.pods, tier._pod("2")]
    pods[-1]["status"] = {"phase": "Pending", "conditions": [
        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes: no GPU"},
    ]}

    def listed(path: str, selector: str, fields: str = "") -> list[Any]:
        tier.deployment["status"] = {
            "observedGeneration": tier.deployment["metadata"]["generation"], "replicas": 3, "updatedReplicas": 1,
            "availableReplicas": 2,
        }
        return pods

    return listed


def test_pod_without_room_fails_with_the_schedulers_reason(tier: FakeTier, monkeypatch: pytest.MonkeyPatch) -> None:
    """R9: Pending to the deadline: the scheduler's words are the reason, and the version is not to blame."""
    monkeypatch.setattr(tier, "list", pending(tier))
    progress = roll(tier, "2")
    assert (progress.state, progress.blames_version) == (State.FAILED, False)
    assert progress.reason == (
        "not finished after 60 s: 1 of 2 pods updated; pod pod-5: not scheduled: Unschedulable: 0/1 nodes: no GPU"
    )


@pytest.mark.parametrize(("status", "ends"), [("loading", "not finished after 60 s"), ("failed", "pod pod-5: failed")])
def test_pod_that_is_not_ready_says_why(
    tier: FakeTier, monkeypatch: pytest.MonkeyPatch, status: str, ends: str,
) -> None:
    """M4: a version that the server gave up loading ends the rollout at once; one that it still tries is waited for."""
    listed = pending(tier)
    pod = listed("", "")[-1]
    pod["status"] = {"containerStatuses": [{"name": "mlflow-serve", "state": {"running": {}}}]}
    monkeypatch.setattr(tier, "list", listed)
    said = f'{{"status": "{status}", "model_version": "", "detail": "the digest differs"}}'
    monkeypatch.setattr(tier, "proxy", lambda *args, **kwargs: (503, said))
    progress = roll(tier, "2")
    assert (progress.state, progress.blames_version) == (State.FAILED, True)
    assert progress.reason.startswith(ends)
    assert f"{status}: the digest differs" in progress.reason


def test_word_for_hopeless_is_the_servers_own() -> None:
    """Both sides of /health agree on the word that ends a rollout."""
    from typing import get_args

    from airflow_provider_ragops.rollout.answers import HOPELESS
    from airflow_provider_ragops.workloads.serving.state import Status

    assert HOPELESS in get_args(Status)


def test_guard_is_asked_before_each_look(tier: FakeTier) -> None:
    """A lost lock ends the waiting with the guard's own error."""
    looks = [0]

    def lost() -> None:
        looks[0] += 1
        if looks[0] == 2:
            raise ConflictError("lock", expected="a hold", seen="none", action="Retry.")

    with pytest.raises(ConflictError, match="lock"):
        roll(tier, "2", guard=lost)
    assert looks == [2]


def test_deleted_deployment_is_named(tier: FakeTier) -> None:
    """R4: gone for good, not made anew: the error names it."""
    with pytest.raises(TargetError, match=r"Deployment ml-serving/mlflow-serve: expected to exist"):
        roll(tier, "2", guard=lambda: tier.objects.pop(tier.path, None))


def test_recreated_deployment_is_another(tier: FakeTier) -> None:
    """R4: same name, same template, another UID: not ours."""

    def recreate() -> None:
        tier.deployment["metadata"]["uid"] = "uid-2"

    assert roll(tier, "2", guard=recreate).reason == "the Deployment was deleted and made anew"


def test_own_missing_right_is_raised(tier: FakeTier) -> None:
    """A 403 of the API server's proxy says nothing about the version."""
    tier.refuse = (403, "forbidden")
    with pytest.raises(ClusterError, match="pods/proxy"):
        roll(tier, "2")


def test_unreached_pod_does_not_blame_the_version(tier: FakeTier) -> None:
    """Ready by the kubelet, but out of the API server's reach (a network policy): failed, without blame."""
    tier.refuse = (503, "dial tcp: i/o timeout")
    progress = roll(tier, "2")
    assert (progress.state, progress.blames_version) == (State.FAILED, False)
    assert "not reached: 503" in progress.reason


def test_no_version_waits_for_the_drain_only(tier: FakeTier) -> None:
    """Before a first release the way back ends when no pod of a version is left; nobody is asked anything."""
    updater = make_updater(tier)
    written = updater.write(updater.read(), Change("{}", "", strategy=DRAIN))
    progress = updater.wait(written, "", None, 60, lambda: None, patient=True)
    assert (progress.state, progress.reason) == (State.DONE, "no pod serves a version")
    assert tier.asked == []


def test_gap_is_logged_with_the_write(tier: FakeTier, caplog: pytest.LogCaptureFixture) -> None:
    """R9: the log of a release that takes a pod away first says what it costs."""
    updater = make_updater(tier)
    with caplog.at_level(logging.WARNING):
        updater.write(updater.read(), Change("{}", "2", strategy=MAKE_ROOM))
    assert "no room for a pod more" in caplog.text
    assert "1 of 2 pods serve" in caplog.text


GPU_NODE = {"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "1", "pods": "110", "nvidia.com/gpu": "1"}}}


def test_feasibility_reads_nodes_pods_and_quotas(tier: FakeTier) -> None:
    """R9: from the cluster as it is; ended pods are not even read."""
    container = tier.deployment["spec"]["template"]["spec"]["containers"][1]
    container["resources"] = {"limits": {"nvidia.com/gpu": 1}}
    tier.nodes = [GPU_NODE]
    fields: list[str] = []
    listed = tier.list

    def recorded(path: str, selector: str, given: str = "") -> Any:
        fields.append(given)
        return listed(path, selector, given)

    tier.list = recorded  # type: ignore[method-assign]
    updater = make_updater(tier)
    assert updater.feasibility(updater.read()) == Feasibility(Fit.FITS, "node n has room for a pod more")
    assert fields == ["", "", "status.phase!=Succeeded,status.phase!=Failed"]
    for pod in tier.pods:
        pod["spec"]["nodeName"] = "n"
        pod["spec"]["containers"][0]["resources"] = container["resources"]
    assert updater.feasibility(updater.read()).reason == "nvidia.com/gpu: 1 wanted, 0 free on 1 node"


def test_feasibility_without_rights_is_unknown(tier: FakeTier) -> None:
    """R9: no ClusterRole, no verdict: it says what could not be read, and the release goes on."""
    updater = make_updater(tier)
    seen = updater.feasibility(updater.read())
    assert seen == Feasibility(Fit.UNKNOWN, "nodes can't be read (403 forbidden)")
    tier.quotas = None
    assert updater.feasibility(updater.read()).reason == (
        "resourcequotas can't be read (403 forbidden); nodes can't be read (403 forbidden)"
    )


def test_feasibility_that_is_not_answered_is_unknown(tier: FakeTier, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cluster too large to list in time does not stop a release."""

    def slow(path: str, *args: str) -> Any:
        raise UnreachableError(path, expected="an answer", seen="none in 10 s", action="Wait.")

    updater = make_updater(tier)
    found = updater.read()
    monkeypatch.setattr(tier, "list", slow)
    assert "nodes can't be read (none in 10 s)" in updater.feasibility(found).reason


def test_target_of_these_tests_is_the_fakes() -> None:
    """The fake stands where the target points."""
    assert FakeTier().path.endswith(f"{TARGET.namespace}/deployments/{TARGET.deployment}")
