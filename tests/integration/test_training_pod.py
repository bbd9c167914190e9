"""Training and evaluation in real pods, with a real MLflow server that the pods reach over the network."""

from __future__ import annotations

import json
import os
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pandas as pd
import pytest
from airflow.sdk.exceptions import AirflowFailException
from kubernetes import client, config

from airflow_provider_ragops import contract
from airflow_provider_ragops.exceptions import UnreachableError, WorkloadFailedError
from airflow_provider_ragops.hooks.mlflow import MlflowHook
from airflow_provider_ragops.operators.evaluation import ModelEvaluationPodOperator
from airflow_provider_ragops.operators.training import GpuTrainingPodOperator
from tests.unit.operators.pods import TaskInstance, context
from tests.unit.workloads.training_sets import MODEL, log_training_set, rows

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.images,
    # The provider and its client in these releases, about themselves.
    pytest.mark.filterwarnings("ignore::DeprecationWarning:kubernetes"),
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
]


@pytest.fixture(scope="module")
def core(cluster) -> client.CoreV1Api:
    return client.CoreV1Api(config.new_client_from_config(str(cluster.kubeconfig)))


@pytest.fixture(scope="module")
def namespace(core: client.CoreV1Api) -> Iterator[str]:
    name = f"training-{uuid.uuid4().hex[:8]}"
    core.create_namespace({"metadata": {"name": name}}, _request_timeout=10)
    _await(lambda: core.list_namespaced_service_account(name, _request_timeout=10).items, "the default account")
    yield name
    core.delete_namespace(name, _request_timeout=10)


@pytest.fixture(scope="module")
def hook(cluster, mlflow_server, namespace: str) -> Iterator[MlflowHook]:
    """Airflow's two connections, and MLflow as the tests look at it."""
    kubernetes = {"kube_config_path": str(cluster.kubeconfig), "namespace": namespace}
    connections = {
        "AIRFLOW_CONN_MLFLOW_DEFAULT": {"conn_type": "mlflow", "host": mlflow_server.uri},
        "AIRFLOW_CONN_KUBERNETES_DEFAULT": {"conn_type": "kubernetes", "extra": kubernetes},
    }
    with mock.patch.dict(os.environ, {name: json.dumps(value) for name, value in connections.items()}):
        yield MlflowHook()


@pytest.fixture(scope="module")
def settings(hook: MlflowHook, images, namespace: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What all pods of this module have in common."""
    uri, digest = log_training_set(hook, rows(2_000, nan_share=0.02), tmp_path_factory.mktemp("data"))
    return {
        "image": images.training, "namespace": namespace, "model": MODEL, "data_uri": uri, "data_digest": digest,
        "partition": "2026-11-29", "startup_check_interval_seconds": 1, "memory": "1Gi", "cpu": "100m",
    }  # fmt: skip


@pytest.fixture
def training(settings: dict[str, Any]) -> Callable[..., GpuTrainingPodOperator]:
    """An operator for work of its own: its seed is drawn, so nothing of another test is reused."""
    seed = uuid.uuid4().int % 2**32

    def build(**changes: Any) -> GpuTrainingPodOperator:
        given = {
            "task_id": "train", "experiment": "churn", "cutoff": "2026-08-31T00:00:00+00:00", "gpus": 0, "epochs": 3,
            "batch_size": 64, "learning_rate": 0.01, "seed": seed, "shared_memory": "64Mi",
        }  # fmt: skip
        return GpuTrainingPodOperator(**settings | given | changes)

    return build


def executed(operator: Any) -> dict[str, Any]:
    ti = TaskInstance()
    operator.execute(context(ti))
    return ti.xcoms["return_value"]


def test_pod_trains_and_evaluates(
    hook: MlflowHook, core: client.CoreV1Api, namespace: str, settings: dict[str, Any],
    training: Callable[..., GpuTrainingPodOperator], tmp_path: Path,
) -> None:  # fmt: skip
    """The pod leaves a complete version; the same work reuses it; its evaluation holds both scores; no pod stays."""
    trained = executed(training())
    version, run = hook.registry().version(MODEL, trained["version"]), hook.run(trained["run_id"])
    assert trained["reused"] is False
    assert run.info.status == "FINISHED"
    assert version.tags[contract.TAG_COMPLETED] == run.data.tags[contract.TAG_COMPLETED] == trained["attempt"]
    assert version.tags[contract.TAG_IMAGE] == settings["image"]
    assert run.data.metrics["auc"] > 0.7

    assert executed(training()) == trained | {"reused": True}

    hook.registry().set_alias(MODEL, "champion", trained["version"])
    candidate = executed(training(epochs=1))
    shared = {name: value for name, value in settings.items() if name != "model"}
    found = executed(
        ModelEvaluationPodOperator(task_id="evaluate", model=MODEL, candidate=candidate["version"], **shared)
    )
    assert found["champion"] == trained["version"]
    metrics = json.loads(hook.download(found["run_id"], "evaluation/metrics.json", tmp_path).read_text())
    for side, result in (("candidate", candidate), ("champion", trained)):
        assert metrics[side]["auc"] == hook.run(result["run_id"]).data.metrics["auc"]
    predictions = pd.read_parquet(hook.download(found["run_id"], "evaluation/predictions.parquet", tmp_path))
    assert predictions[["candidate", "champion"]].notna().all(axis=None)
    _await_no_pod(core, namespace, trained["attempt"])
    _await_no_pod(core, namespace, candidate["attempt"])


@pytest.mark.parametrize(
    ("script", "error", "message"),
    [
        ("raise RuntimeError('the disk is full')", WorkloadFailedError, "exit code 1 .*RuntimeError: the disk is full"),
        ("print('done')", AirflowFailException, r"exit code 0 \(Completed\), but MLflow has no run of this"),
    ],
)
def test_script_without_proof_fails(
    training: Callable[..., GpuTrainingPodOperator], hook: MlflowHook, script: str, error: type[Exception], message: str
) -> None:
    """K1: a script that crashes, and one that exits 0 without its marker: named, nothing registered for the work."""
    operator = training(cmds=["python", "-c", script])
    before = len(hook.registry().find(MODEL, {}))
    with pytest.raises(error, match=message) as failure:
        operator.execute(context(TaskInstance()))
    assert operator.attempt in str(failure.value)
    assert len(hook.registry().find(MODEL, {})) == before


def test_refused_data_is_told_from_the_pod(training: Callable[..., GpuTrainingPodOperator]) -> None:
    """A digest that is not the file's: the pod's own words reach Airflow, and the task is not retried."""
    with pytest.raises(AirflowFailException, match=r"exit code 3 .*expected content with digest 0123456789abcdef"):
        training(data_digest="0123456789abcdef").execute(context(TaskInstance()))


@pytest.mark.parametrize("image", ["localhost/ragops/no-such-image:1", "Not A Name:1"])
def test_unknown_image_fails_at_once(training: Callable[..., GpuTrainingPodOperator], image: str) -> None:
    """K3: an image that can't be pulled fails within seconds, naming it; nobody waits for the schedule timeout."""
    began = time.monotonic()
    with pytest.raises(AirflowFailException, match=f"an image that the node can pull, '{image}'"):
        training(image=image).execute(context(TaskInstance()))
    assert time.monotonic() - began < 60


def test_missing_gpu_is_named(
    training: Callable[..., GpuTrainingPodOperator], core: client.CoreV1Api, namespace: str
) -> None:
    """K3: no node offers the GPU: after its own schedule timeout the task may be retried; no pod goes on waiting."""
    operator = training(gpus=1, gpu_resource="ragops.test/gpu", schedule_timeout_seconds=5)
    with pytest.raises(WorkloadFailedError, match=r"Unschedulable: .*Insufficient ragops\.test/gpu"):
        operator.execute(context(TaskInstance()))
    _await_no_pod(core, namespace, operator.attempt)


def test_hung_pod_is_ended(
    training: Callable[..., GpuTrainingPodOperator], core: client.CoreV1Api, namespace: str
) -> None:
    """K5: a training that hangs is ended by its node at the deadline; the error names it, and no pod stays."""
    operator = training(
        cmds=["python", "-c", "import time; time.sleep(900)"], active_deadline_seconds=5, termination_grace_period=1
    )
    began = time.monotonic()
    with pytest.raises(AirflowFailException, match=r"active_deadline_seconds=5; saw DeadlineExceeded: Pod was active"):
        operator.execute(context(TaskInstance()))
    assert time.monotonic() - began < 60
    _await_no_pod(core, namespace, operator.attempt)


def test_deleted_pod_is_named(
    training: Callable[..., GpuTrainingPodOperator], core: client.CoreV1Api, namespace: str, hook: MlflowHook
) -> None:
    """K1: the pod is deleted while it trains: the task fails and may be retried; its run is FAILED."""
    operator = training(epochs=10_000, termination_grace_period=10)

    def delete() -> None:
        run = _await(lambda: hook.find_run("churn", {contract.TAG_ATTEMPT: operator.attempt or "-"}), "the run")
        _await(lambda: "train_loss" in hook.run(run.info.run_id).data.metrics, "an epoch")
        core.delete_namespaced_pod(operator.pod.metadata.name, namespace, _request_timeout=10)

    deleter = threading.Thread(target=delete)
    deleter.start()
    with pytest.raises(WorkloadFailedError, match=r"deleted, preempted|exit code 143"):
        operator.execute(context(TaskInstance()))
    deleter.join(30)
    run = hook.find_run("churn", {contract.TAG_ATTEMPT: operator.attempt})
    assert run.info.status == "FAILED"


def test_retry_joins_the_pod_of_a_dead_worker(
    training: Callable[..., GpuTrainingPodOperator], hook: MlflowHook, core: client.CoreV1Api, namespace: str
) -> None:
    """K2: a worker dies after starting its pod; the retry joins it: one pod, one run, one version."""
    dead = training()
    key = dead.registration_key
    dead.prepare(context(TaskInstance()), key, dead.command_line)
    dead.client.create_namespaced_pod(namespace, dead.build_pod_request_obj(context(TaskInstance())))

    result = executed(training())
    assert result["attempt"] == dead.attempt
    assert [version.version for version in hook.registry().find(MODEL, {contract.TAG_REGISTRATION_KEY: key})] == [
        result["version"]
    ]
    _await_no_pod(core, namespace, dead.attempt)


def test_unreachable_cluster_is_named(
    training: Callable[..., GpuTrainingPodOperator], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cluster does not answer: its address and connection are named, and the task may be retried."""
    kubeconfig = {
        "apiVersion": "v1", "kind": "Config", "current-context": "c", "users": [{"name": "u", "user": {"token": "t"}}],
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:9"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
    }  # fmt: skip
    path = tmp_path / "kubeconfig"
    path.write_text(json.dumps(kubeconfig))
    extra = {"conn_type": "kubernetes", "extra": {"kube_config_path": str(path)}}
    monkeypatch.setenv("AIRFLOW_CONN_KUBERNETES_DEFAULT", json.dumps(extra))
    with pytest.raises(UnreachableError, match=r"Kubernetes API at http://127\.0\.0\.1:9 .*'kubernetes_default'"):
        training().execute(context(TaskInstance()))


def _await_no_pod(core: client.CoreV1Api, namespace: str, attempt: str) -> None:
    label = f"{contract.LABEL_ATTEMPT}={attempt}"
    _await(
        lambda: not core.list_namespaced_pod(namespace, label_selector=label, _request_timeout=10).items, "its end"
    )


def _await(probe: Callable[[], Any], what: str, seconds: float = 60) -> Any:
    deadline = time.monotonic() + seconds
    while not (found := probe()):
        assert time.monotonic() < deadline, f"{what} did not come within {seconds:g} s"
        time.sleep(0.3)
    return found
