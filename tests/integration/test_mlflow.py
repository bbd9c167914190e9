"""Hook, registry and ledger against a real MLflow server over HTTP, artifacts through its proxy."""

from __future__ import annotations

import os
import uuid
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from typing import Any
from unittest import mock

import pytest

from airflow_provider_ragops.exceptions import RegistryError
from airflow_provider_ragops.hooks.mlflow import MlflowHook
from airflow_provider_ragops.promotion.ledger import LedgerEntry, overtaken

NOW = datetime(2026, 11, 30, 2, tzinfo=timezone.utc)


@pytest.fixture
def hook(mlflow_server: Any) -> Iterator[MlflowHook]:
    with mock.patch.dict(os.environ):
        os.environ["AIRFLOW_CONN_MLFLOW_DEFAULT"] = mlflow_server.uri.replace("http://", "mlflow://")
        yield MlflowHook()


@pytest.fixture
def model() -> str:
    """A name that no other test uses: the server is shared."""
    return f"Churn-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def quiet() -> None:
    """MLflow warns while it defines its own types, and gives hints to authors of models."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import mlflow.pyfunc  # noqa: F401 - here, so that no test sees the warnings of its import


def _log_model(hook: MlflowHook, model: str, tags: dict[str, str], *, example: bool) -> str:
    """Log and register with MLflow's own code, as a training does; returns the version."""
    import mlflow
    import pandas as pd

    class Mean(mlflow.pyfunc.PythonModel):  # type: ignore[misc]
        def predict(self, context, model_input):  # type: ignore[no-untyped-def]  # MLflow reads the hints
            return model_input.mean(axis=1)

    before = mlflow.get_tracking_uri()
    mlflow.set_tracking_uri(hook.tracking_uri)
    try:
        mlflow.set_experiment("churn")
        with mlflow.start_run(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            mlflow.log_metric("auc", 0.75)
            rows = pd.DataFrame({"a": [1.0, 2.0], "b": [3.0, 4.0]}) if example else None
            logged = mlflow.pyfunc.log_model(name="model", python_model=Mean(), input_example=rows, pip_requirements=[])
        return str(mlflow.register_model(logged.model_uri, model, tags=tags).version)
    finally:
        mlflow.set_tracking_uri(before)


@pytest.mark.usefixtures("quiet")
def test_a_registered_model_is_found_and_asked(hook: MlflowHook, model: str) -> None:
    """A version made by MLflow's own code: found by its tags, named by an alias, with metrics and an example."""
    registry = hook.registry()
    assert registry.alias(model, "champion") is None
    version = _log_model(hook, model, {"ragops.registration_key": "k"}, example=True)
    assert registry.alias(model, "champion") is None

    registry.set_alias(model, "champion", version)
    assert registry.alias(model, "champion") == version
    (found,) = registry.find(model, {"ragops.registration_key": "k"})
    assert found == registry.version(model, version)
    assert registry.metrics(model, version) == {"auc": 0.75}
    assert registry.input_example(model, version) == {
        "dataframe_split": {"columns": ["a", "b"], "data": [[1.0, 3.0], [2.0, 4.0]]}
    }
    with pytest.raises(RegistryError, match=f"version 9 of model '{model}' at http://"):
        registry.version(model, "9")


@pytest.mark.usefixtures("quiet")
def test_a_model_without_example_is_refused(hook: MlflowHook, model: str) -> None:
    """M4: without an input example nothing can be sent to a pod; the error says how to log one."""
    version = _log_model(hook, model, {}, example=False)

    with pytest.raises(RegistryError, match=r"no such file.*input_example="):
        hook.registry().input_example(model, version)


def test_ledger_over_http(hook: MlflowHook) -> None:
    """A release is opened once, closed once, and answers what served on a day."""
    times = iter(NOW + timedelta(minutes=minutes) for minutes in range(1, 9))
    ledger, target = hook.ledger(lambda: next(times)), f"ml-serving/{uuid.uuid4().hex[:8]}"
    release = uuid.uuid4().hex
    entry = LedgerEntry(release, target, "Churn", None, "1", 7, "airflow", "it's \"good\"", "runs:/x", NOW)

    for _ in range(2):
        ledger.open(entry)
    assert [each.reason for each in ledger.open_entries(target)] == ["it's \"good\""]
    for _ in range(2):
        ledger.close(release, "released", "verified", 8)

    (closed,) = ledger.history(target)
    assert (closed.closed_at, closed.closed_token) == (NOW + timedelta(minutes=1), 8)
    assert overtaken([closed], "1")
    assert [each.version for each in hook.served_on(target, NOW.date())] == ["1"]
    assert ledger.served_on(target, NOW) is None
    served = ledger.served_on(target, NOW + timedelta(days=1))
    assert served
    assert served.to_version == "1"


def test_experiments_are_created_once_by_many(hook: MlflowHook) -> None:
    """M5: eight tasks start their first run in one new experiment at the same time: none fails, one experiment."""
    hook.client()
    name = f"race-{uuid.uuid4().hex[:8]}"
    with ThreadPoolExecutor(8) as pool:
        runs = list(pool.map(lambda number: hook.start_run(name, f"run {number}", {}), range(8)))

    assert len({hook.run(run_id).info.experiment_id for run_id in runs}) == 1
    assert len(set(runs)) == 8


def test_connection_is_tested(hook: MlflowHook, mlflow_server: Any) -> None:
    """The connection form's button tells the address."""
    assert hook.test_connection() == (True, f"MLflow answers at {mlflow_server.uri}")
