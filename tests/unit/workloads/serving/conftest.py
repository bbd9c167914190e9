"""A real MLflow registry on SQLite, with versions of a small scikit-learn model; no server needed."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Thread
from typing import Any

import httpx
import pytest
import uvicorn

from airflow_provider_ragops.contract import TAG_MODEL_DIGEST, tree_digest
from airflow_provider_ragops.workloads.serving.app import create_app
from airflow_provider_ragops.workloads.serving.artifact import BOUNDS
from airflow_provider_ragops.workloads.serving.settings import Settings
from tests.isolation import process_state_kept

MODEL = "CustomerChurnPredictor"
EXPERIMENT = "serving"
# Of libraries about themselves: they would be errors here.
NOT_OURS = (
    "ignore:The ``noload`` loader strategy is deprecated:DeprecationWarning",
    "ignore:.*Any type hint is inferred as AnyType:UserWarning",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            for line in NOT_OURS:
                item.add_marker(pytest.mark.filterwarnings(line))


@dataclass(frozen=True)
class Registry:
    """``files``: the artifact directory of each logged model, writable by a test that tampers."""

    uri: str
    client: Any
    source: str
    digest: str

    def register(self, *, digest: str | None = None, source: str | None = None) -> str:
        """A new version of the model with the right digest, another one, or none (empty text)."""
        tag = self.digest if digest is None else digest
        made = self.client.create_model_version(
            MODEL, source or self.source, tags={TAG_MODEL_DIGEST: tag} if tag else {}
        )
        return str(made.version)


def log_model(slope: float) -> Any:
    """Log ``y = slope * a + b``, pickled, to the current store; returns MLflow's description of it."""
    import mlflow
    import pandas as pd
    from mlflow.models import infer_signature
    from sklearn.linear_model import LinearRegression

    frame = pd.DataFrame({"a": [0.0, 1.0, 2.0, 3.0], "b": [1.0, 0.0, 1.0, 0.0]})
    fitted = LinearRegression().fit(frame, slope * frame["a"] + frame["b"])
    return mlflow.sklearn.log_model(
        fitted, name="model", input_example=frame.head(2), serialization_format="pickle",
        signature=infer_signature(frame, fitted.predict(frame)), pip_requirements=["scikit-learn"],
    )


def log_files(folder: Path, slope: float) -> tuple[str, Path]:
    """As ``log_model``, to a store whose artifacts lie below ``folder``; returns its URI and the model's files."""
    info = log_model(slope)
    return info.model_uri, next(folder.rglob(f"{info.model_id}/artifacts"))


@contextmanager
def current(uri: str) -> Iterator[None]:
    """This store is the one that MLflow's functions use inside the block, and no longer."""
    import mlflow

    with process_state_kept():
        mlflow.set_tracking_uri(uri)
        mlflow.set_registry_uri(uri)
        yield


@pytest.fixture(scope="session")
def mlflow_store(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """Address and artifact directory of a fresh store; the current one while a test uses it."""
    import mlflow

    folder = tmp_path_factory.mktemp("mlflow")
    uri = f"sqlite:///{folder}/mlflow.db"
    with current(uri):
        mlflow.create_experiment(EXPERIMENT, (folder / "artifacts").as_uri())
    return uri, folder


@pytest.fixture(scope="session")
def registry(mlflow_store: tuple[str, Path]) -> Registry:
    import mlflow

    uri, folder = mlflow_store
    client = mlflow.MlflowClient(tracking_uri=uri, registry_uri=uri)
    client.create_registered_model(MODEL)
    with current(uri):
        mlflow.set_experiment(EXPERIMENT)
        source, files = log_files(folder, slope=2.0)
    return Registry(uri, client, source, tree_digest(files))


@pytest.fixture(autouse=True)
def _current_store(request: pytest.FixtureRequest) -> Iterator[None]:
    if "mlflow_store" not in request.fixturenames:
        yield
        return
    import mlflow

    with current(request.getfixturevalue("mlflow_store")[0]):
        mlflow.set_experiment(EXPERIMENT)
        yield


@pytest.fixture
def settings(registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Of a pod that serves a fresh version."""
    for name, value in BOUNDS.items():  # what loading would leave in the environment of this process
        monkeypatch.setenv(name, value)
    return Settings(MODEL, registry.register(), registry.uri, tmp_path / "cache")


@contextmanager
def listening(app: Any) -> Iterator[httpx.Client]:
    """The app behind a real uvicorn on a free port, and a client of it."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        server = uvicorn.Server(uvicorn.Config(app, log_config=None, timeout_graceful_shutdown=5))
        thread = Thread(target=server.run, args=([sock],))
        thread.start()
        try:
            wait_until(lambda: server.started)
            with httpx.Client(base_url=f"http://127.0.0.1:{sock.getsockname()[1]}", timeout=30) as client:
                yield client
        finally:
            server.should_exit = True
            thread.join(10)


Serving = Callable[..., Any]


@pytest.fixture
def serving(settings: Settings) -> Serving:
    """``with serving(model_version="3") as client``: a running app, asked when its loading has settled."""

    @contextmanager
    def run(*, settled: bool = True, load: Any = None, **changes: Any) -> Iterator[httpx.Client]:
        arguments = {"load": load} if load else {}
        with listening(create_app(replace(settings, **changes), **arguments)) as client:
            if settled:
                wait_until(lambda: client.get("/health").json()["status"] != "loading")
            yield client

    return run


def wait_until(condition: Callable[[], bool], deadline: float = 30.0) -> None:
    end = time.monotonic() + deadline
    while not condition():
        assert time.monotonic() < end, f"not within {deadline} s"
        time.sleep(0.02)
