"""A real MLflow store on SQLite for tests that need no server: migrated once per session, copied per test."""

from __future__ import annotations

import json
import os
import shutil
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from unittest import mock

import pytest

from airflow_provider_ragops.hooks.mlflow import MlflowHook

# What MLflow 3.17 and its libraries warn about inside themselves.
MLFLOW_WARNINGS = ("ignore:The ``noload`` loader strategy", "ignore:unclosed database:ResourceWarning")


def connect(tracking_uri: str) -> MlflowHook:
    """A hook on that store, by a connection in the environment."""
    connection = {"conn_type": "mlflow", "extra": {"tracking_uri": tracking_uri}}
    os.environ["AIRFLOW_CONN_MLFLOW_DEFAULT"] = json.dumps(connection)
    return MlflowHook()


@pytest.fixture(scope="session")
def _migrated_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("mlflow-template") / "mlflow.db"
    with mock.patch.dict(os.environ), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a session's fixture is set up under the filters of whichever test comes first
        connect(f"sqlite:///{file}").client()
    return file


@pytest.fixture
def mlflow_store(_migrated_store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[MlflowHook]:
    """``MlflowHook`` on an empty store of its own; artifacts lie under the test's own folder."""
    file = shutil.copy(_migrated_store, tmp_path / "mlflow.db")
    monkeypatch.chdir(tmp_path)  # MLflow puts artifacts of a database store into the working directory
    with mock.patch.dict(os.environ):
        yield connect(f"sqlite:///{file}")


def register(hook: MlflowHook, model: str = "Churn", tags: Mapping[str, str] | None = None, run_id: str = "") -> str:
    """Register a version whose files lie in a run (a new one unless given), with tags at creation; its number."""
    client = hook.client()
    if not run_id:
        run_id = hook.start_run("churn", "train", {})
        hook.end_run(run_id)
    if not client.search_registered_models(f"name = '{model}'"):
        client.create_registered_model(model)
    source = f"{client.get_run(run_id).info.artifact_uri}/model"
    return str(client.create_model_version(model, source, run_id, tags=dict(tags or {})).version)
