"""Rollouts of tiny pods by real controllers: what a scripted tier could get wrong."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from kubernetes import client, config

from airflow_provider_ragops.contract import LABEL_BLESSING
from airflow_provider_ragops.exceptions import ReleaseRefusedError
from airflow_provider_ragops.kube import Kube
from airflow_provider_ragops.release.fence import Fence
from airflow_provider_ragops.release.record import Phase, ReleaseRecord
from airflow_provider_ragops.rollout.candidate_pod import Blessing, Verdict, build
from airflow_provider_ragops.rollout.feasibility import Fit, strategy_for, undo_strategy
from airflow_provider_ragops.rollout.plan import MAKE_ROOM, USUAL, Change, apply, strategy_of
from airflow_provider_ragops.rollout.status import State
from tests.fakes.proxy import FaultyProxy

from .tier import EXAMPLE, NAME, TinyTier

pytestmark = [pytest.mark.cluster, pytest.mark.images, pytest.mark.timeout(300)]

# What the node is made to have one of. No GPU's name, and this run's own: others may use the node at the same time.
SLOT = f"airflow-provider-ragops/slot-{uuid.uuid4().hex[:6]}"
KEY = SLOT.replace("/", "~1")


@pytest.fixture(scope="module")
def tier(cluster, images) -> Iterator[TinyTier]:
    api = config.new_client_from_config(str(cluster.kubeconfig))
    core = client.CoreV1Api(api)
    namespace = f"rollout-{uuid.uuid4().hex[:8]}"
    core.create_namespace({"metadata": {"name": namespace}}, _request_timeout=10)
    made = TinyTier(api, namespace, images.serving)
    made.expose()
    yield made
    core.delete_namespace(namespace, _request_timeout=10)


@pytest.fixture
def serving(tier: TinyTier) -> TinyTier:
    """One replica that serves version 1."""
    tier.arrange()
    return tier


@pytest.fixture
def slots(tier: TinyTier) -> Iterator[Any]:
    """``slots(n)``: the first node has n of an extended resource."""
    node = tier.core.list_node(_request_timeout=10).items[0].metadata.name

    def patch(number: int, verb: str = "add") -> None:
        value = {"value": str(number)} if verb == "add" else {}
        body = [{"op": verb, "path": f"/status/{part}/{KEY}", **value} for part in ("capacity", "allocatable")]
        tier.core.patch_node_status(node, body, _request_timeout=10)

    yield patch
    patch(0, "remove")


def test_pod_that_serves_another_version(serving: TinyTier) -> None:
    """R10: Ready, and by its own word version 1: a mismatch; the old pod is untouched, and the way back is short."""
    before = serving.names("1")
    progress = serving.roll("9", ready=10)
    assert (progress.state, progress.blames_version) == (State.FAILED, True)
    assert "version mismatch: it serves version '1', not '9'" in progress.reason
    assert serving.names("1") == before
    assert serving.roll("1", patient=True).state is State.DONE
    assert serving.names("1") == before


def test_stuck_rollout_and_the_way_back(tier: TinyTier) -> None:
    """R2, R3: version 7 exceeds its deadline; no rollout after it falls over that condition, which still stands. From
    the bad version 9 the way leads to the recorded version 1, never to 7, the revision before it."""
    tier.arrange(progressDeadlineSeconds=3)
    good = tier.names("1")
    stuck = tier.roll("7")
    assert (stuck.state, stuck.blames_version) == (State.FAILED, True)
    assert "ProgressDeadlineExceeded" in stuck.reason
    assert "loading" in stuck.reason
    assert "ProgressDeadlineExceeded" in str(tier.updater.read()["status"]["conditions"])
    tier.write(lambda found: {**found, "spec": {**found["spec"], "progressDeadlineSeconds": 600}})
    assert "version mismatch" in tier.roll("9", ready=10).reason
    back = tier.roll("1")
    assert back.state is State.DONE, back.reason
    assert tier.names("1") == good


def test_no_history_is_needed(tier: TinyTier) -> None:
    """R14: with revisionHistoryLimit 0 the old ReplicaSet is gone; the way back makes it anew from the record."""
    tier.arrange(revisionHistoryLimit=0)
    tier.eventually(lambda: len(tier.revisions()) == 1)
    first = tier.revisions()
    assert tier.roll("2").state is State.DONE
    tier.eventually(lambda: len(tier.revisions()) == 1)
    assert tier.revisions() != first
    assert tier.roll("1").state is State.DONE
    assert len(tier.names("1")) == 1


def test_equal_version_moves_nothing(serving: TinyTier) -> None:
    """R13: no new ReplicaSet, the same pod; also while only the strategy goes back to the usual one."""
    before = (serving.revisions(), serving.names("1"))
    assert serving.roll("1").state is State.DONE
    assert serving.roll("1", strategy=MAKE_ROOM).state is State.DONE
    assert strategy_of(serving.updater.read()) == MAKE_ROOM
    assert serving.roll("1").state is State.DONE
    assert strategy_of(serving.updater.read()) == USUAL
    assert (serving.revisions(), serving.names("1")) == before


def test_scaled_in_mid_rollout(serving: TinyTier) -> None:
    """R4: an autoscaler's hand is no supersession: the rollout is done when all the pods wanted now serve."""
    scaled: list[int] = []

    def scale() -> None:
        if not scaled and len(serving.pods()) > 1:
            scaled.append(2)
            body = {"spec": {"replicas": 2}}
            serving.apps.patch_namespaced_deployment_scale(NAME, serving.namespace, body, _request_timeout=10)

    progress = serving.roll("2", guard=scale)
    assert (progress.state, progress.reason) == (State.DONE, "2 pods serve 2")
    assert scaled == [2]


def test_restart_by_hand_in_mid_rollout(serving: TinyTier) -> None:
    """R4: ``kubectl rollout restart`` leaves the version and supersedes the template: failed, without blame."""
    done: list[bool] = []

    def restart() -> None:
        if not done:
            done.append(True)
            metadata = {"annotations": {"kubectl.kubernetes.io/restartedAt": "now"}}
            body = {"spec": {"template": {"metadata": metadata}}}
            serving.apps.patch_namespaced_deployment(NAME, serving.namespace, body, _request_timeout=10)

    progress = serving.roll("2", guard=restart)
    assert progress.reason == "someone else changed the pod template, though not its MODEL_VERSION"
    assert (progress.state, progress.blames_version) == (State.FAILED, False)


def test_last_slot_is_taken(tier: TinyTier, slots: Any, evidence) -> None:
    """R9: no room for one pod more is known before anything is touched: refused, or one pod less where that is allowed.

    Tried all the same, it fails at the deadline with the scheduler's reason, and the old pod is untouched. An undo that
    waits for room would never end, and does end.
    """
    slots(1)
    tier.arrange(requests={SLOT: "1"})
    before = tier.names("1")

    seen = tier.updater.feasibility(tier.updater.read())
    assert seen.state is Fit.NO
    assert f"{SLOT}: 1 wanted, 0 free on" in seen.reason
    with pytest.raises(ReleaseRefusedError, match="1 wanted, 0 free"):
        strategy_for(seen, allow_unavailable=False, subject="it")

    blessing = tier.updater.bless(
        tier.updater.read(), "2", EXAMPLE, token=1, timeout=30, room=2, guard=lambda: None,
    )
    assert blessing.state is Verdict.NO_ROOM
    assert f"Insufficient {SLOT}" in blessing.reason

    forced = tier.roll("2", timeout=10)
    assert (forced.state, forced.blames_version) == (State.FAILED, False)
    assert "not finished after 10 s" in forced.reason
    assert f"Insufficient {SLOT}" in forced.reason
    assert tier.names("1") == before
    assert tier.roll("1", patient=True, strategy=undo_strategy(seen)).state is State.DONE
    assert tier.names("1") == before

    assert tier.roll("2", strategy=strategy_for(seen, allow_unavailable=True, subject="it")).state is State.DONE
    assert tier.roll("1", timeout=4, patient=True).state is State.FAILED
    assert tier.roll("1", patient=True, strategy=undo_strategy(seen)).state is State.DONE
    evidence["faults"] += 4


def test_room_for_one_more(tier: TinyTier, slots: Any) -> None:
    """R9: with a second slot it fits; the candidate shows there that it loads, and leaves it free for the rollout."""
    slots(2)
    tier.arrange(requests={SLOT: "1"})
    found = tier.updater.read()
    blessing = tier.updater.bless(found, "2", EXAMPLE, token=1, timeout=60, guard=lambda: None)
    assert blessing == Blessing(Verdict.BLESSED)
    assert tier.updater.feasibility(found).state is Fit.FITS
    assert tier.roll("2").state is State.DONE


def test_quota_without_room(serving: TinyTier, evidence) -> None:
    """R4, R9: a quota that one pod more would exceed: known before, told by the API server, and no obstacle to one pod
    less."""
    serving.core.create_namespaced_resource_quota(
        serving.namespace, {"metadata": {"name": "one-pod"}, "spec": {"hard": {"pods": "1"}}}, _request_timeout=10,
    )
    try:
        serving.eventually(lambda: serving.updater.feasibility(serving.updater.read()).state is Fit.NO)
        found = serving.updater.read()
        assert "ResourceQuota one-pod: pods: 1 wanted, 0 of 1 free" in serving.updater.feasibility(found).reason
        blessing = serving.updater.bless(found, "2", EXAMPLE, token=1, timeout=30, guard=lambda: None)
        assert (blessing.state, "exceeded quota: one-pod" in blessing.reason) == (Verdict.NO_ROOM, True)
        forced = serving.roll("2", timeout=8)
        assert (forced.state, forced.blames_version) == (State.FAILED, False)
        assert "exceeded quota: one-pod" in forced.reason
        assert serving.roll("1", patient=True).state is State.DONE
        began = time.monotonic()
        # Another version: the ReplicaSet of this one was refused, and tries again after ever longer pauses.
        less = serving.roll("3", strategy=MAKE_ROOM, timeout=120)
        assert less.state is State.DONE, less.reason
        evidence["seconds of a rollout inside a full quota"] = round(time.monotonic() - began)
    finally:
        serving.core.delete_namespaced_resource_quota("one-pod", serving.namespace, _request_timeout=10)


def endpoints(tier: TinyTier) -> list[str]:
    """Pods that the Service knows, Ready or not."""
    found = tier.kube.get(f"/api/v1/namespaces/{tier.namespace}/endpoints/{NAME}") or {}
    subsets = found.get("subsets") or []
    addresses = [one for part in subsets for kind in ("addresses", "notReadyAddresses") for one in part.get(kind) or []]
    return [one["targetRef"]["name"] for one in addresses]


def test_candidate_beside_the_tier(serving: TinyTier) -> None:
    """The candidate's pod answers as the tier's would; no Service sends it a request, no ReplicaSet counts it. One that
    a killed try left is swept first."""
    left = build(serving.updater.read(), None, serving.target, "7", 0, 60)
    serving.kube.create(f"/api/v1/namespaces/{serving.namespace}/pods", left)
    before, revisions = serving.names("1"), serving.revisions()
    watched: list[tuple[list[str], list[Any]]] = []

    def watch() -> None:
        beside = [pod for pod in serving.pods() if LABEL_BLESSING in pod["metadata"]["labels"]]
        owners = [owner for pod in beside for owner in pod["metadata"]["ownerReferences"]]
        if beside:
            watched.append((endpoints(serving), owners))

    found = serving.updater.read()
    blessing = serving.updater.bless(found, "2", EXAMPLE, token=1, timeout=60, guard=watch)
    assert blessing == Blessing(Verdict.BLESSED)
    assert len(watched) > 2
    assert all(known == before for known, _ in watched)
    assert all([owner["kind"] for owner in owners] == ["Deployment"] for _, owners in watched)
    assert [pod["metadata"]["name"] for pod in serving.pods()] == before
    assert serving.revisions() == revisions


@pytest.mark.parametrize(("version", "reason"), [
    ("8", "exit code 3: Error"), ("9", "version mismatch"),
])  # fmt: skip
def test_candidate_that_does_badly(
    serving: TinyTier, caplog: pytest.LogCaptureFixture, version: str, reason: str,
) -> None:
    """Found before the tier is touched; its last words stay in the log, and its pod is gone."""
    before = serving.names("1")
    found = serving.updater.read()
    blessing = serving.updater.bless(found, version, EXAMPLE, token=1, timeout=30, guard=lambda: None)
    assert (blessing.state, reason in blessing.reason) == (Verdict.NOT_BLESSED, True), blessing.reason
    assert ("the model can't be read" in caplog.text) is (version == "8")
    assert [pod["metadata"]["name"] for pod in serving.pods()] == before


def test_candidate_goes_with_the_deployment(serving: TinyTier) -> None:
    """X1: left by a killed process, it goes with the Deployment that owns it."""
    found, path = serving.updater.read(), f"/api/v1/namespaces/{serving.namespace}/pods"
    serving.kube.create(path, build(found, None, serving.target, "7", 1, 60))
    serving.apps.delete_namespaced_deployment(NAME, serving.namespace, _request_timeout=10)
    serving.eventually(lambda: not serving.pods())


def fenced(tier: TinyTier, kube: Kube) -> tuple[Fence, ReleaseRecord]:
    """A sealed fence whose writes go the given way."""
    fence = Fence(tier.updater_by(kube), tier.target, lambda: None, pause=0.1)
    _, record = fence.seal(1)
    return fence, record


@pytest.mark.parametrize("fault", [{"drop_reply": True}, {"status": 409}])
def test_lost_reply_makes_one_revision(serving: TinyTier, cluster, fault: dict[str, Any], evidence) -> None:
    """R8: written and not heard of, or refused once: read again, written again, one new ReplicaSet in all."""
    seed = ReleaseRecord(model="M", release_id="r1", to_version="1", phase=Phase.DONE)
    serving.write(lambda found: apply(found, Change(seed.dump()), serving.target))
    before = serving.revision()
    with FaultyProxy(cluster.kubeconfig) as proxy:
        fence, record = fenced(serving, Kube(proxy.client()))
        rule = proxy.fail("PUT", f"/deployments/{NAME}", times=1, **fault)
        written = fence.write(record.rolling("r2", "2", "a test", ""), "2")
    progress = serving.updater.wait(written, "2", EXAMPLE, 120, lambda: None)
    assert progress.state is State.DONE, progress.reason
    assert rule.hits == 1
    assert serving.revision() == before + 1
    evidence["faults"] += 1


def test_api_server_away_in_mid_rollout(serving: TinyTier, cluster, evidence) -> None:
    """R12: connections cut, 503 for seconds, then the errors of a server that starts: no false verdict."""
    with FaultyProxy(cluster.kubeconfig) as proxy:
        updater = serving.updater_by(Kube(proxy.client(), timeout=3))

        def trouble() -> None:
            proxy.fail(".*", ".*", times=2, cut=True)
            down = proxy.fail(".*", ".*", times=None, status=503)
            time.sleep(3)
            down.cancel()
            proxy.fail("GET", "/pods", times=2, status=500)
            proxy.fail("GET", "/proxy/health", times=1, cut=True)

        thread = threading.Thread(target=lambda: (time.sleep(0.5), trouble()))
        thread.start()
        progress = serving.roll("2", updater=updater)
        thread.join(timeout=30)
        assert progress.state is State.DONE, progress.reason
        hits = len(proxy.requests)
    assert hits > 10
    evidence["faults"] += 5
