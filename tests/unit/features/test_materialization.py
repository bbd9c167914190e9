"""What is refused before anything goes online. The rest, with a real store: tests/integration/test_features.py."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_ragops.contract import Partition
from airflow_provider_ragops.exceptions import ConfigurationError
from airflow_provider_ragops.features.materialization import materialize


class Store:
    """A store of one view; it keeps no row."""

    def __init__(self, source: Any) -> None:
        self.view = SimpleNamespace(name="purchases", join_keys=["user_id"], features=[], batch_source=source)

    def apply(self, definitions: list[Any]) -> None: ...

    def list_feature_views(self) -> list[Any]:
        return [self.view]

    def materialize(self, *args: object) -> None:
        raise AssertionError("something went online")


@pytest.mark.parametrize(("source", "seen"), [
    ({"path": "s3://churn/features/date=*/features.parquet"}, "'s3://churn/features/date="),
    ({"table": "features"}, "''"),
])
def test_view_without_local_files(source: dict[str, str], seen: str) -> None:
    """A view over an URL, or over no file at all, is refused by name, and nothing is written."""
    found = SimpleNamespace(**source, timestamp_field="event_timestamp", created_timestamp_column="")
    told = f"source of feature view purchases: expected a local or mounted path; saw {seen}"
    with pytest.raises(ConfigurationError, match=told):
        materialize(Store(found), [], ["purchases"], Partition.parse("2026-11-29"))  # type: ignore[arg-type]
