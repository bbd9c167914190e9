"""Fixtures for all unit tests."""

from __future__ import annotations

import pytest

from tests.stores import MLFLOW_WARNINGS, _migrated_store, mlflow_store

__all__ = ["_migrated_store", "mlflow_store"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "mlflow_store" in getattr(item, "fixturenames", ()):
            for warning in MLFLOW_WARNINGS:
                item.add_marker(pytest.mark.filterwarnings(warning))
