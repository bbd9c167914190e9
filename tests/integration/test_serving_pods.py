"""Serving pods of the real image on a real cluster, with an MLflow server that serves the artifacts."""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import helm_python as helm
import pytest
from demo.paths import ROOT
from kubernetes import client, config
from kubernetes.stream import stream

from airflow_provider_ragops.contract import TAG_MODEL_DIGEST, ServingTarget, tree_digest
from airflow_provider_ragops.exceptions import ConflictError
from airflow_provider_ragops.kube import Kube
from airflow_provider_ragops.rollout.plan import Change
from airflow_provider_ragops.rollout.status import State
from airflow_provider_ragops.rollout.updater import Updater

pytestmark = [
    pytest.mark.cluster, pytest.mark.images, pytest.mark.timeout(600),
    pytest.mark.filterwarnings("ignore:.*[Pp]ickle:UserWarning"),
    pytest.mark.filterwarnings("ignore:.*Any type hint is inferred as AnyType:UserWarning"),
]

MODEL = "CustomerChurnPredictor"
QUESTION = {"dataframe_split": {"columns": ["a", "b"], "data": [[1.5, 4.0]]}}


@dataclass(frozen=True)
class Tier:
    """An installed serving tier without a version, and two registered versions that predict differently."""

    api: client.ApiClient
    kube: Kube
    updater: Updater
    namespace: str
    versions: tuple[str, str]
    tampered: str

    def pods(self) -> list[Any]:
        return self.updater.pods(self.updater.read())

    def ask(self, pod: str, path: str) -> tuple[int, dict[str, Any]]:
        path = f"/api/v1/namespaces/{self.namespace}/pods/{pod}:5000/proxy/{path}"
        status, body = self.kube.proxy(path)
        return status, json.loads(body)

    def predict(self) -> tuple[int, str]:
        return self.kube.proxy(
            f"/api/v1/namespaces/{self.namespace}/services/mlflow-serve:5000/proxy/invocations", "POST", QUESTION
        )

    def run(self, pod: str, *command: str) -> str:
        """Both outputs of a command in a pod."""
        socket = stream(
            client.CoreV1Api(self.api).connect_get_namespaced_pod_exec, pod, self.namespace, command=list(command),
            stdout=True, stderr=True, stdin=False, tty=False, _preload_content=False, _request_timeout=60,
        )
        socket.run_forever(timeout=60)
        output = str(socket.read_all())
        socket.sock.shutdown()  # close() does nothing once the far end has closed, and leaves the connection open
        return output

    def assign(self, version: str) -> dict[str, Any]:
        """Write MODEL_VERSION as a release does."""
        for _ in range(20):
            try:
                return dict(self.updater.write(self.updater.read(), Change("{}", version)))
            except ConflictError:
                time.sleep(0.2)
        pytest.fail("the Deployment changed 20 times in a row")


def add(registry: Any, logged: Any, digest: str) -> Any:
    # A server refuses models:/ sources without the id of the logged model; a local store does not ask.
    tags = {TAG_MODEL_DIGEST: digest}
    return registry.create_model_version(MODEL, logged.model_uri, model_id=logged.model_id, tags=tags)


def register(uri: str, folder: Path) -> tuple[str, str, str]:
    """Versions 1 and 2 with the digest of their files, 3 with another one."""
    import mlflow
    import pandas as pd
    import torch
    from mlflow.models import infer_signature

    mlflow.set_tracking_uri(uri)
    mlflow.set_registry_uri(uri)
    registry = mlflow.MlflowClient()
    registry.create_registered_model(MODEL)
    experiment = registry.create_experiment(f"serving-{uuid.uuid4().hex[:8]}")
    frame = pd.DataFrame({"a": [0.0, 1.0], "b": [1.0, 0.0]}, dtype="float32")
    versions = []
    for slope in (2.0, 3.0):
        network = torch.nn.Linear(2, 1)
        with torch.no_grad():
            network.weight.copy_(torch.tensor([[slope, 1.0]]))
            network.bias.zero_()
        with mlflow.start_run(experiment_id=experiment):
            logged = mlflow.pytorch.log_model(
                network, name="model", input_example=frame, serialization_format="pickle", pip_requirements=["torch"],
                signature=infer_signature(frame, pd.DataFrame({"0": [1.0, 2.0]}, dtype="float32")),
            )
        digest = tree_digest(Path(mlflow.artifacts.download_artifacts(logged.model_uri, dst_path=folder / str(slope))))
        made = add(registry, logged, digest)
        versions.append(str(made.version))
    bad = add(registry, logged, "0" * 64)
    return versions[0], versions[1], str(bad.version)


@pytest.fixture(scope="module")
def versions(mlflow_server, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str, str]:
    return register(mlflow_server.uri, tmp_path_factory.mktemp("models"))


@pytest.fixture
def tier(cluster, images, mlflow_server, versions: tuple[str, str, str]) -> Iterator[Tier]:
    first, second, tampered = versions
    api = config.new_client_from_config(str(cluster.kubeconfig))
    namespace = f"serving-{uuid.uuid4().hex[:8]}"
    repository, _, tag = images.serving.rpartition(":")
    values = {
        "image": {"repository": repository, "tag": tag}, "mlflow": {"trackingUri": mlflow_server.uri},
        "training": {"create": False},
    }
    with helm.Config(kubeconfig_path=cluster.kubeconfig, namespace=namespace) as connection:
        connection.install(ROOT / "docker" / "chart", "mlflow-serve", values, create_namespace=True, timeout=60)
        kube = Kube(api)
        updater = Updater(kube, ServingTarget(namespace, MODEL), poll=0.5)
        yield Tier(api, kube, updater, namespace, (first, second), tampered)
        connection.uninstall("mlflow-serve", timeout=60)
    client.CoreV1Api(api).delete_namespace(namespace, _request_timeout=10)


def wait_until(condition: Callable[[], bool], deadline: float) -> float:
    started = time.monotonic()
    while not condition():
        assert time.monotonic() - started < deadline, f"not within {deadline} s"
        time.sleep(0.3)
    return time.monotonic() - started


class Load(threading.Thread):
    """Asks the Service without pause and counts the statuses and the versions that answered."""

    def __init__(self, tier: Tier) -> None:
        super().__init__(daemon=True)
        self.tier, self.seen, self.stopped = tier, Counter[str](), threading.Event()

    def run(self) -> None:
        while not self.stopped.is_set():
            status, body = self.tier.predict()
            good = status == 200
            self.seen[json.loads(body)["metadata"]["model_version"] if good else f"{status} {body[:200]}"] += 1


def test_from_no_version_to_one_and_to_the_next(tier: Tier, evidence: Counter[str]) -> None:
    """R5, R10: no version assigned; a first version; a rolling update under load without a failed request.

    One test, because each step starts where the one before ended; a pod takes seconds to start.
    """
    first, second = tier.versions
    wait_until(lambda: len(tier.pods()) == 2 and all(alive(tier, pod.name) for pod in tier.pods()), 120)
    status, health = tier.ask(tier.pods()[0].name, "health")
    assert (status, health["status"], health["model_version"]) == (503, "no version assigned", "")

    started = time.monotonic()
    progress = tier.updater.wait(tier.assign(first), first, QUESTION, 240, lambda: None)
    assert progress.state is State.DONE, progress.reason
    evidence["seconds to the first version"] = round(time.monotonic() - started)
    served = json.loads(tier.predict()[1])
    assert served["metadata"] == {"model_name": MODEL, "model_version": first}
    assert list(served["predictions"][0].values()) == [pytest.approx(7.0)]

    load = Load(tier)
    load.start()
    started = time.monotonic()
    progress = tier.updater.wait(tier.assign(second), second, QUESTION, 240, lambda: None)
    evidence["seconds of a rolling update"] = round(time.monotonic() - started)
    load.stopped.set()
    load.join(30)
    assert progress.state is State.DONE, progress.reason
    assert set(load.seen) == {first, second}, load.seen
    evidence["requests"] += load.seen.total()
    status, health = tier.ask(tier.pods()[0].name, f"health?model_version={second}")
    assert (status, health["status"], health["model_version"]) == (200, "ready", second)


def alive(tier: Tier, pod: str) -> bool:
    return tier.kube.proxy(f"/api/v1/namespaces/{tier.namespace}/pods/{pod}:5000/proxy/ping")[0] == 200


def test_what_is_and_is_not_in_the_image(tier: Tier) -> None:
    """No Airflow; a file system that can't be written but for /tmp and the pod's own cache; no rights."""
    wait_until(lambda: any(alive(tier, pod.name) for pod in tier.pods()), 120)
    pod = next(pod.name for pod in tier.pods() if alive(tier, pod.name))
    assert "No module named 'airflow'" in tier.run(pod, "python", "-c", "import airflow")
    assert "No module named 'kubernetes'" in tier.run(pod, "python", "-c", "import kubernetes")
    assert "Read-only file system" in tier.run(pod, "sh", "-c", "touch /app/file")
    assert tier.run(pod, "sh", "-c", "touch /tmp/file /tmp/model_cache/file && id -u").strip() == "10001"
    assert "No such file" in tier.run(pod, "ls", "/var/run/secrets/kubernetes.io/serviceaccount")


def test_a_version_with_changed_files_never_turns_ready(tier: Tier) -> None:
    """M4: the new pod says why and takes no request; the pods before it go on."""
    progress = tier.updater.wait(tier.assign(tier.versions[0]), tier.versions[0], QUESTION, 240, lambda: None)
    assert progress.state is State.DONE, progress.reason
    before = {pod.name for pod in tier.pods() if pod.ready}
    assert len(before) == 2
    tier.assign(tier.tampered)

    def said() -> bool:
        new = [pod.name for pod in tier.pods() if pod.version == tier.tampered and alive(tier, pod.name)]
        return any(tier.ask(name, "health")[1]["status"] == "failed" for name in new)

    wait_until(said, 120)
    new = next(pod.name for pod in tier.pods() if pod.version == tier.tampered)
    assert "Nothing was unpickled" in tier.ask(new, "health")[1]["detail"]
    assert before <= {pod.name for pod in tier.pods() if pod.ready}
