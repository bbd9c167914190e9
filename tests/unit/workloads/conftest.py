"""Fixtures for the workloads."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_provider_ragops.hooks.mlflow import MlflowHook
from tests.unit.workloads.training_sets import log_training_set, rows

# MLflow about its own type hints, once per process, where a model is logged or loaded.
NOT_OURS = "ignore:.*Any type hint is inferred as AnyType:UserWarning"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "store" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.filterwarnings(NOT_OURS))


@pytest.fixture
def store(mlflow_store: MlflowHook) -> Iterator[MlflowHook]:
    """An empty MLflow store; afterwards MLflow's global address, which the workloads set, is as it was."""
    import mlflow

    mlflow_store.client()
    yield mlflow_store
    mlflow.set_tracking_uri(None)


@pytest.fixture
def data(store: MlflowHook, tmp_path: Path) -> tuple[str, str]:
    """URI and digest of a logged training set, some of whose values are missing."""
    return log_training_set(store, rows(nan_share=0.05), tmp_path)
