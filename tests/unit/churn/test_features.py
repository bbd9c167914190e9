"""The churn example's features: its query against a search by hand, and its Feast definitions."""

from __future__ import annotations

from pathlib import Path

import fsspec
import pandas as pd
import pytest
from churn import settings
from churn.features.daily import FEATURES
from demo.paths import ROOT
from pyarrow import parquet

from airflow_provider_ragops.features.query import FeatureQuery
from airflow_provider_ragops.features.repository import load_definitions
from airflow_provider_ragops.features.snapshots import write_snapshots
from tests.fakes import purchases

FS = fsspec.filesystem("file")
ONE_DAY = pd.Timedelta(days=1)


def read_all(location: Path) -> pd.DataFrame:
    parts = [parquet.ParquetFile(path).read().to_pandas() for path in sorted(location.glob("*/*.parquet"))]
    return pd.concat(parts, ignore_index=True)


def oracle(lines: pd.DataFrame, end: pd.Timestamp) -> dict[int, dict[str, float]]:
    """The same features, customer by customer, in plain Python."""
    found = {}
    for user, mine in lines[lines["event_timestamp"] < end].groupby("user_id"):
        times = mine["event_timestamp"]
        back = {days: mine[times >= end - days * ONE_DAY] for days in (7, 30, 90, 180)}
        active = times.dt.floor("D").nunique()
        tenure = (end - times.min()) / ONE_DAY
        gap = (times.max() - times.min()) / ONE_DAY / (active - 1) if active > 1 else tenure
        found[int(user)] = {
            "avg_transaction_amount_7d": back[7]["amount"].mean() if len(back[7]) else 0.0,
            "transaction_count_30d": len(back[30]), "transaction_count_90d": len(back[90]),
            "transaction_count_180d": len(back[180]), "transaction_amount_90d": back[90]["amount"].sum(),
            "days_since_last_transaction": (end - times.max()) / ONE_DAY, "tenure_days": tenure,
            "transaction_count_total": len(mine), "active_days_total": active,
            "avg_transaction_amount_total": mine["amount"].mean(), "avg_items_total": mine["items"].mean(),
            "mean_days_between_transactions": gap,
        }
    return found


def test_equal_to_the_oracle(tmp_path: Path) -> None:
    """All customers and features of a sample of days equal a brute-force search; only past purchases count."""
    source, target = purchases.write(tmp_path / "transactions"), tmp_path / "features"
    query = FeatureQuery.load("churn.features.daily:QUERY")
    write_snapshots((FS, str(source)), target, purchases.LAST, query, history_days=95)
    lines = read_all(source)
    for back in (0, 1, 29, 60, 94):
        end = pd.Timestamp(purchases.LAST.end) - back * ONE_DAY
        file = target / f"date={(end - ONE_DAY).date()}" / "features.parquet"
        found = parquet.ParquetFile(file).read().to_pandas().set_index("user_id")
        expected = pd.DataFrame.from_dict(oracle(lines, end), orient="index").astype(float)
        pd.testing.assert_frame_equal(found[list(FEATURES)], expected, check_names=False)


def test_definitions_follow_query_and_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """The view has the query's features and the settings' location, also where no environment variable is set."""
    monkeypatch.delenv("RAGOPS_FEATURES_LOCATION", raising=False)
    named = {getattr(one, "name", ""): one for one in load_definitions(ROOT / "dags" / "churn" / "features")}
    assert [field.name for field in named[settings.FEATURE_VIEW].features] == ["known_at", *FEATURES]
    path = named["user_financial_snapshots"].path
    assert path == f"{settings.FEATURES_LOCATION.rstrip('/')}/date=*/features.parquet"
