"""The serving app against a real MLflow server: its own client, RAG models, and a server that goes and comes back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from demo import services
from demo.background import Background

from airflow_provider_ragops.contract import TAG_MODEL_DIGEST, tree_digest
from airflow_provider_ragops.workloads.serving.app import create_app
from airflow_provider_ragops.workloads.serving.artifact import BOUNDS
from airflow_provider_ragops.workloads.serving.settings import Settings
from tests.unit.workloads.serving.conftest import MODEL, NOT_OURS, listening, log_model, wait_until

pytestmark = [
    pytest.mark.timeout(300), pytest.mark.filterwarnings("ignore:.*Add type hints to the `predict` method:UserWarning"),
    *(pytest.mark.filterwarnings(line) for line in NOT_OURS),
]


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


@pytest.fixture
def served(mlflow_server, tmp_path: Path, restored_uris: None, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """The settings of a pod at the real server; the model and its version are a test's own."""
    import mlflow

    for name, value in BOUNDS.items():
        monkeypatch.setenv(name, value)
    mlflow.set_tracking_uri(mlflow_server.uri)
    mlflow.set_registry_uri(mlflow_server.uri)
    mlflow.set_experiment(f"serving-{tmp_path.name}")
    return Settings(f"served-{tmp_path.name}", "", mlflow_server.uri, tmp_path / "cache")


def registered(settings: Settings, logged: Any) -> Settings:
    import mlflow

    mlflow.end_run()
    client = mlflow.MlflowClient()
    with suppress(mlflow.exceptions.MlflowException):
        client.create_registered_model(settings.model_name)
    made = client.create_model_version(
        settings.model_name, logged.model_uri, run_id=logged.run_id, model_id=logged.model_id
    )
    return replace(settings, model_version=str(made.version))


def test_mlflows_own_client_gets_what_its_own_server_would_give(served: Settings) -> None:
    """MLflow's scoring client asks a version of a real registry here: frames and arrays in, predictions out; an error
    is raised with our message."""
    import pandas as pd
    from mlflow.pyfunc.scoring_server.client import ScoringServerClient

    settings = registered(served, log_model(2.0))
    with listening(create_app(settings)) as client:
        wait_until(lambda: client.get("/health").status_code == 200)
        theirs = ScoringServerClient("127.0.0.1", client.base_url.port)
        theirs.wait_server_ready(timeout=5)
        frame = pd.DataFrame({"a": [1.5, 2.0], "b": [4.0, 0.5]})
        assert theirs.invoke(frame).get_predictions()[0].tolist() == [pytest.approx(7.0), pytest.approx(4.5)]
        with pytest.raises(Exception, match="'b' is missing"):
            theirs.invoke(frame[["a"]])
        assert settings.model_version in client.get("/version").text


def log_rag(**metadata: Any) -> Any:
    import mlflow
    import pandas as pd

    from tests.unit.workloads.serving.rag import Retriever

    class Rag(mlflow.pyfunc.PythonModel):  # type: ignore[misc]
        def load_context(self, context: Any) -> None:
            self.retriever = Retriever()

        def predict(self, context, model_input, params=None):  # no hints: MLflow would make a signature of them
            return [self.retriever.compose(text, (text,), self.retriever.search(self.retriever.embed([text]))).text
                    for text in model_input["query"]]

    told = {"ragops.kind": "rag-retriever", "dimension": 26, "vocabulary_size": 100, "embedder_fingerprint": "abc"}
    return mlflow.pyfunc.log_model(
        name="model", python_model=Rag(), metadata=told | metadata, pip_requirements=["numpy"],
        input_example=pd.DataFrame({"query": ["refunds"]}),
        signature=mlflow.models.ModelSignature(
            mlflow.types.Schema([mlflow.types.ColSpec("string", "query")]),
            mlflow.types.Schema([mlflow.types.ColSpec("string")]),
        ),
    )


def test_a_rag_model_of_a_real_registry_answers_and_names_its_version(served: Settings) -> None:
    """M3: questions, and MLflow's format, are answered by the pinned version, also when the alias names another."""
    import mlflow

    settings = registered(served, log_rag())
    other = registered(served, log_rag())
    mlflow.MlflowClient().set_registered_model_alias(settings.model_name, "champion", other.model_version)
    with listening(create_app(settings)) as client:
        wait_until(lambda: client.get("/health").status_code == 200)
        health = client.get("/health", params={"model_version": settings.model_version}).json()
        assert health["checks"] | {"marker": ""} == {
            "dimension": "26", "vocabulary_size": "100", "embedder_fingerprint": "abc", "marker": "",
        }
        seen = client.post("/invocations", json={"queries": ["refunds and fees"], "customer_id": 7}).json()
        assert seen["answers"][0]["text"] == "Refunds take five days. Fees are listed yearly."
        assert seen["metadata"]["model_version"] == settings.model_version
        plain = client.post("/invocations", json={"dataframe_records": [{"query": "refunds"}]}).json()
        assert plain["predictions"] == ["Refunds take five days."]


@pytest.mark.parametrize(("metadata", "code"), [
    ({"dimension": 768}, "embedding_dimension_mismatch"), ({"vocabulary_size": 99}, "tokenizer_mismatch"),
])
def test_a_rag_model_that_is_not_what_was_registered_never_becomes_ready(
    served: Settings, metadata: dict[str, Any], code: str
) -> None:
    """M3: failed for good, with the code; requests are refused, and the pod stays alive so that it can be asked."""
    settings = registered(served, log_rag(**metadata))
    with listening(create_app(settings)) as client:
        wait_until(lambda: client.get("/health").json()["status"] != "loading")
        health = client.get("/health")
        assert (health.status_code, health.json()["status"], health.json()["code"]) == (503, "failed", code)
        assert client.post("/invocations", json={"queries": ["refunds"]}).status_code == 503
        assert client.get("/health/live").status_code == 200
