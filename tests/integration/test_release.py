"""Releases of hand-registered versions on a real tier: chart, pods, MLflow, lock, alias, ledger."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import textwrap
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from pathlib import Path
from typing import TypeVar

import helm_python as helm
import pytest
from demo.paths import ROOT
from kubernetes import client, config

from airflow_provider_ragops.contract import (
    ANNOTATION_RELEASE,
    NO_VERSION,
    TAG_COMPLETED,
    TAG_GATE_CHAMPION,
    TAG_GATE_VERDICT,
    TAG_PARTITION,
    TAG_QUARANTINED,
    ServingTarget,
)
from airflow_provider_ragops.exceptions import ReleaseRefusedError, RolloutFailedError
from airflow_provider_ragops.kube import Kube
from airflow_provider_ragops.locking.configmap import ConfigMapStore
from airflow_provider_ragops.locking.holding import held
from airflow_provider_ragops.locking.lock import Lock
from airflow_provider_ragops.locking.times import LockTimes
from airflow_provider_ragops.promotion.mlflow_ledger import MlflowLedger
from airflow_provider_ragops.promotion.registry import MlflowRegistry
from airflow_provider_ragops.release import procedure
from airflow_provider_ragops.release.repair import Finding, repair
from airflow_provider_ragops.release.request import ReleaseOutcome, ReleaseRequest
from airflow_provider_ragops.release.session import Session
from airflow_provider_ragops.rollout.updater import Updater

pytestmark = [
    pytest.mark.cluster, pytest.mark.images, pytest.mark.timeout(300),
    # MLflow remarks on its own classes and on pickles while a model is logged.
    pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning"),
]

Result = TypeVar("Result")
TIMES = LockTimes(lease=12, renew_deadline=8, retry=0.5, wait=60)


@dataclass
class Tier:
    """A tier of its own: namespace, Deployment, registered model."""

    kubeconfig: Path
    mlflow_uri: str
    target: ServingTarget

    def __post_init__(self) -> None:
        from mlflow import MlflowClient

        self.kube = Kube(config.new_client_from_config(str(self.kubeconfig)), timeout=TIMES.renew_deadline / 2)
        self.updater = Updater(self.kube, self.target)
        mlflow = MlflowClient(self.mlflow_uri)
        self.registry = MlflowRegistry(mlflow, self.mlflow_uri)
        self.ledger = MlflowLedger(mlflow, self.mlflow_uri, lambda: datetime.now(timezone.utc))

    def release(self, version: str, run: str = "run", blessing_timeout: float | None = None) -> ReleaseOutcome:
        request = ReleaseRequest(version, f"{run}-{version}", "test", "a test")
        return self.under_lock(lambda session, token: procedure.release(session, request, token), blessing_timeout)

    def roll_back(self, reason: str) -> ReleaseOutcome:
        request = ReleaseRequest("", "back", "test", reason, manual=True)
        return self.under_lock(lambda session, token: procedure.roll_back(session, request, token))

    def lift_hold(self) -> ReleaseOutcome:
        return self.under_lock(lambda session, token: procedure.hold(session, "", token))

    def repair(self) -> list[Finding]:
        return self.under_lock(repair)

    def under_lock(self, work: Callable[[Session, int], Result], blessing_timeout: float | None = None) -> Result:
        lock = Lock(ConfigMapStore(self.kube, self.target.namespace, self.target.lock_name), "test", "a test", TIMES)
        with held(lock):
            session = Session(
                self.target, self.updater, self.registry, self.ledger, lock.check, renew=lock.renew, timeout=120,
                blessing_timeout=blessing_timeout,
            )
            return work(session, lock.token)

    def register(self, weight: float, judged: str = NO_VERSION) -> str:
        """Log a model that answers ``sigmoid(weight·x)`` and tag it as one that passed the gate, of a newer day."""
        import mlflow
        import pandas
        import torch

        mlflow.set_tracking_uri(self.mlflow_uri)
        mlflow.set_experiment(self.target.model)
        model = torch.nn.Sequential(torch.nn.Linear(1, 1, bias=False), torch.nn.Sigmoid())
        with torch.no_grad():
            model[0].weight.fill_(weight)
        example = pandas.DataFrame({"x": [1.0, 2.0]})
        with mlflow.start_run():
            logged = mlflow.pytorch.log_model(
                model, name="model", input_example=example, registered_model_name=self.target.model,
                pip_requirements=["torch==2.13.0"], serialization_format="pickle",
            )
        version = str(logged.registered_model_version)
        partition = (date(2026, 1, 1) + timedelta(days=int(version))).isoformat()
        self.registry.set_tags(self.target.model, version, {
            TAG_COMPLETED: "test", TAG_GATE_VERDICT: "promote", TAG_GATE_CHAMPION: judged, TAG_PARTITION: partition,
        })
        return version

    def assert_serves(self, version: str) -> None:
        """Alias, template and what each pod itself says are the same version; nothing is half done."""
        assert self.registry.alias(self.target.model, "champion") == version
        pods = self.updater.pods(self.updater.read())
        assert {pod.version for pod in pods} == {version}
        assert len(pods) == 2
        example = self.registry.input_example(self.target.model, version)
        assert [self.updater.ask(pod.name, version, example).fault for pod in pods] == ["", ""]
        assert not self.ledger.open_entries(self.target.slug)


@pytest.fixture(scope="module")
def tier(cluster, images, mlflow_server) -> Iterator[Tier]:
    suffix = uuid.uuid4().hex[:6]
    namespace = f"release-{suffix}"
    repository, _, tag = images.serving.rpartition(":")
    model = f"churn-{suffix}"
    values = {
        "image": {"repository": repository, "tag": tag}, "mlflow": {"trackingUri": mlflow_server.uri},
        "model": {"name": model}, "training": {"create": False},
        "rollout": {"preStopSeconds": 2, "drainSeconds": 12, "terminationGracePeriodSeconds": 30},
    }
    with helm.Config(kubeconfig_path=cluster.kubeconfig, namespace=namespace) as connection:
        connection.install(ROOT / "docker" / "chart", "mlflow-serve", values, create_namespace=True, timeout=60)
        yield Tier(cluster.kubeconfig, mlflow_server.uri, ServingTarget(namespace, model))
        connection.uninstall("mlflow-serve", timeout=60)
    core = client.CoreV1Api(config.new_client_from_config(str(cluster.kubeconfig)))
    core.delete_namespace(namespace, _request_timeout=10)


@pytest.fixture(scope="module")
def champion(tier: Tier) -> str:
    """Version 1, released for the first time."""
    version = tier.register(0.5)
    outcome = tier.release(version)
    assert (outcome.previous, outcome.changed) == ("", True)
    return version


def test_rolling_update_under_load(tier: Tier, champion: str, evidence) -> None:
    """Two versions take turns pod by pod; every request meanwhile is answered by one of them."""
    before = tier.registry.alias(tier.target.model, "champion")
    assert before is not None
    version = tier.register(1.0, judged=before)
    example = tier.registry.input_example(tier.target.model, before)
    calls, began = tier.kube.calls.total(), time.monotonic()
    with Load(tier, example) as load:
        outcome = tier.release(version, blessing_timeout=60)
    evidence["api calls of a rolling update"] = tier.kube.calls.total() - calls
    evidence["seconds a rolling update held the lock"] = round(time.monotonic() - began)
    assert (outcome.previous, outcome.changed) == (before, True)
    tier.assert_serves(version)
    assert load.failures == []
    assert load.versions >= {before, version}
    evidence["requests"] += load.requests
    evidence["failures"] += len(load.failures)
    history = tier.ledger.history(tier.target.slug)
    assert (history[0].from_version, history[0].to_version, history[0].outcome) == (before, version, "released")
    assert tier.release(version, run="again").changed is False


def test_version_that_answers_nonsense_never_reaches_the_tier(tier: Tier, champion: str) -> None:
    """A model whose predictions are NaN is found out in a pod beside the tier: nothing of the tier is touched."""
    before = tier.registry.alias(tier.target.model, "champion")
    assert before is not None
    bad = tier.register(float("nan"), judged=before)
    spec = tier.updater.read()["spec"]
    with pytest.raises(ReleaseRefusedError, match="beside the tier"):
        tier.release(bad, blessing_timeout=60)
    assert tier.updater.read()["spec"] == spec
    tier.assert_serves(before)


def test_version_that_answers_nonsense_is_undone(tier: Tier, champion: str) -> None:
    """Where it is not tried beside the tier, its first pod finds it out; the one before serves on."""
    before = tier.registry.alias(tier.target.model, "champion")
    assert before is not None
    bad = tier.register(float("nan"), judged=before)
    with pytest.raises(RolloutFailedError, match="quarantined"):
        tier.release(bad)
    tier.assert_serves(before)
    assert TAG_QUARANTINED in tier.registry.version(tier.target.model, bad).tags
    assert tier.ledger.history(tier.target.slug)[0].outcome == "undone"
    with pytest.raises(ReleaseRefusedError, match="quarantined"):
        tier.release(bad, run="retry")


def test_killed_worker_is_resumed(tier: Tier, champion: str) -> None:
    """X1: a worker killed in mid-rollout; the retry waits for its lease to end and finishes the release."""
    before = tier.registry.alias(tier.target.model, "champion")
    assert before is not None
    version = tier.register(2.0, judged=before)
    with start_worker(tier, version) as worker:
        try:
            wait_for_phase(tier, "rolling")
        finally:
            worker.kill()
    assert tier.registry.alias(tier.target.model, "champion") == before
    outcome = tier.release(version)
    assert outcome.changed
    tier.assert_serves(version)


def test_frozen_worker_is_fenced_out(tier: Tier, champion: str) -> None:
    """L1: a worker frozen past its lease in mid-rollout; another releases; the thawed one writes nothing."""
    before = tier.registry.alias(tier.target.model, "champion")
    assert before is not None
    slow, quick = tier.register(2.5, judged=before), tier.register(3.0, judged=before)
    with start_worker(tier, slow) as worker:
        try:
            wait_for_phase(tier, "rolling")
            worker.send_signal(signal.SIGSTOP)
            assert tier.release(quick).changed
            token = json.loads(tier.updater.read()["metadata"]["annotations"][ANNOTATION_RELEASE])["token"]
            worker.send_signal(signal.SIGCONT)
            _, told = worker.communicate(timeout=60)
        finally:
            worker.kill()
    assert worker.returncode == 1
    assert b"FencedOutError" in told or b"LockLostError" in told
    assert json.loads(tier.updater.read()["metadata"]["annotations"][ANNOTATION_RELEASE])["token"] == token
    tier.assert_serves(quick)
    assert tier.repair() == []


def test_rollback_goes_to_the_last_good_as_one_unit(tier: Tier, champion: str) -> None:
    """R3, C12: pods, alias, record and ledger go back to the recorded last good version, and the target is held."""
    good = tier.registry.alias(tier.target.model, "champion")
    assert good is not None
    regretted = tier.register(4.0, judged=good)
    tier.release(regretted)
    outcome = tier.roll_back("users complain")
    assert (outcome.previous, outcome.version) == (regretted, good)
    tier.assert_serves(good)
    assert "users complain" in tier.registry.version(tier.target.model, regretted).tags[TAG_QUARANTINED]
    later = tier.register(5.0, judged=good)
    with pytest.raises(ReleaseRefusedError, match="on hold: users complain"):
        tier.release(later)
    tier.lift_hold()
    tier.release(later)
    tier.assert_serves(later)


class Load:
    """Asks the Service through the API server, over and over, from a thread."""

    def __init__(self, tier: Tier, example: dict[str, object]) -> None:
        import threading

        self.requests, self.failures, self.versions = 0, list[str](), set[str]()
        self._stop = threading.Event()
        self._tier, self._example = tier, example
        self._kube = Kube(config.new_client_from_config(str(tier.kubeconfig)))
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Load:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(timeout=30)

    def _run(self) -> None:
        target = self._tier.target
        path = f"/api/v1/namespaces/{target.namespace}/services/{target.service}:{target.port}/proxy/invocations"
        while not self._stop.wait(0.05):
            status, body = self._kube.proxy(path, "POST", self._example)
            self.requests += 1
            if status == 200:
                self.versions.add(json.loads(body)["metadata"]["model_version"])
            else:
                self.failures.append(f"{status} {body[:200]}")


def start_worker(tier: Tier, version: str) -> subprocess.Popen[bytes]:
    script = textwrap.dedent(f"""
        from pathlib import Path
        from airflow_provider_ragops.contract import ServingTarget
        from tests.integration.test_release import Tier
        target = ServingTarget({tier.target.namespace!r}, {tier.target.model!r})
        Tier(Path({str(tier.kubeconfig)!r}), {tier.mlflow_uri!r}, target).release({version!r})
    """)
    environment = {"PYTHONPATH": f"{ROOT}:{ROOT / 'docker'}", "PATH": "/usr/bin:/bin", "HOME": str(Path.home())}
    return subprocess.Popen([sys.executable, "-c", script], cwd=ROOT, env=environment, stderr=subprocess.PIPE)


def wait_for_phase(tier: Tier, phase: str) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        found = tier.updater.read()["metadata"].get("annotations", {}).get("airflow-provider-ragops/release", "{}")
        if json.loads(found).get("phase") == phase:
            return
        time.sleep(0.2)
    pytest.fail(f"no phase {phase!r} within 120 s")
