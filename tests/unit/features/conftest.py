"""Made-up purchases, written as partitions once per session."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest

from airflow_provider_ragops.contract import Partition
from airflow_provider_ragops.features.query import FeatureQuery
from tests.fakes import purchases


@pytest.fixture(scope="session")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return purchases.write(tmp_path_factory.mktemp("transactions"))


@pytest.fixture
def source(written: Path, tmp_path: Path) -> Path:
    """A copy that a test may damage."""
    return Path(shutil.copytree(written, tmp_path / "transactions"))


@pytest.fixture
def last() -> Partition:
    return purchases.LAST


@pytest.fixture
def at() -> Callable[[Path], tuple[Any, str]]:
    """A local folder as the pair that the core takes."""
    return lambda path: (fsspec.filesystem("file"), str(path))


@pytest.fixture
def query() -> FeatureQuery:
    """The churn example's; what it computes: tests/unit/churn/test_features.py."""
    return FeatureQuery.load("churn.features.daily:QUERY")


@pytest.fixture
def memory() -> Iterator[Any]:
    """A storage that is no local path."""
    found = fsspec.filesystem("memory")
    yield found
    found.rm("/", recursive=True)
