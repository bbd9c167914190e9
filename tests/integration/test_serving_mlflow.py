"""The serving app against a real MLflow server that goes away and comes back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from demo import services
from demo.background import Background

from airflow_provider_ragops.contract import TAG_MODEL_DIGEST, tree_digest
from airflow_provider_ragops.workloads.serving.app import create_app
from airflow_provider_ragops.workloads.serving.artifact import BOUNDS
from airflow_provider_ragops.workloads.serving.settings import Settings
from tests.unit.workloads.serving.conftest import MODEL, NOT_OURS, listening, log_model, wait_until

pytestmark = [pytest.mark.timeout(300), *(pytest.mark.filterwarnings(line) for line in NOT_OURS)]


def register(uri: str, folder: Path) -> str:
    """A version with the digest of its files as they are downloaded over HTTP."""
    import mlflow

    mlflow.set_tracking_uri(uri)
    mlflow.set_registry_uri(uri)
    client = mlflow.MlflowClient()
    mlflow.set_experiment(experiment_id=client.create_experiment("serving"))
    logged = log_model(2.0)
    mlflow.end_run()
    digest = tree_digest(Path(mlflow.artifacts.download_artifacts(logged.model_uri, dst_path=folder)))
    client.create_registered_model(MODEL)
    tags = {TAG_MODEL_DIGEST: digest}
    return str(client.create_model_version(MODEL, logged.model_uri, model_id=logged.model_id, tags=tags).version)


@pytest.fixture
def restored_uris() -> Iterator[None]:
    import mlflow

    before = mlflow.get_tracking_uri(), mlflow.get_registry_uri()
    yield
    mlflow.set_tracking_uri(before[0])
    mlflow.set_registry_uri(before[1])


def test_a_pod_that_starts_while_mlflow_is_down_becomes_ready_when_it_is_back(
    tmp_path: Path, restored_uris: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """L7: loading, with MLflow's address and the next try; then ready, without a restart; its files are checked."""
    for name, value in (BOUNDS | {"MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0"}).items():
        monkeypatch.setenv(name, value)
    background = Background(tmp_path / "services")
    server = services.mlflow(tmp_path / "mlflow", "127.0.0.1", services.free_port("127.0.0.1"))
    settings = Settings(MODEL, "", server.address, tmp_path / "cache", require_digest=True)
    try:
        background.start(server)
        settings = replace(settings, model_version=register(server.address, tmp_path / "digest"))
        background.stop(server.name)
        with listening(create_app(settings)) as client:
            wait_until(lambda: "Next try" in client.get("/health").json()["detail"], 60)
            health = client.get("/health")
            assert (health.status_code, health.json()["status"]) == (503, "loading")
            assert server.address in health.json()["detail"]
            background.start(server)
            wait_until(lambda: client.get("/health").status_code == 200, 90)
            assert client.get("/health").json()["model_version"] == settings.model_version
    finally:
        background.stop_all()
