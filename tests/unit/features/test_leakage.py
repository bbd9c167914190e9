"""The leakage verdict catches a join that knows the future, whoever made it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
from churn.features.daily import FEATURES

from airflow_provider_ragops.contract import Partition
from airflow_provider_ragops.exceptions import ConfigurationError
from airflow_provider_ragops.features.leakage import judge
from airflow_provider_ragops.features.query import FeatureQuery
from airflow_provider_ragops.features.snapshots import write_snapshots

At = Callable[[Path], tuple[Any, str]]
NAMES = list(FEATURES)


@pytest.fixture
def snapshots(written: Path, tmp_path: Path, at: At, last: Partition, query: FeatureQuery) -> pd.DataFrame:
    write_snapshots(at(written), tmp_path, last, query, history_days=40)
    return pd.concat([pd.read_parquet(path) for path in sorted(tmp_path.glob("*/*.parquet"))], ignore_index=True)


@pytest.fixture
def view(tmp_path: Path) -> SimpleNamespace:
    source = SimpleNamespace(
        path=f"{tmp_path}/date=*/features.parquet", timestamp_field="event_timestamp",
        created_timestamp_column="created_timestamp",
    )
    return SimpleNamespace(name="purchases", batch_source=source, ttl=timedelta(days=14))


def join(snapshots: pd.DataFrame, time: pd.Timestamp, *, event_lag: pd.Timedelta) -> pd.DataFrame:
    """What a join gives that takes the snapshot of ``event_lag`` before the observation."""
    rows = snapshots[snapshots["event_timestamp"] == time - event_lag]
    return rows.assign(event_timestamp=time).reset_index(drop=True)


def test_right_join(snapshots: pd.DataFrame, view: SimpleNamespace, last: Partition) -> None:
    """At midnight the snapshot of the day before is the newest one that was known: no leak."""
    time = pd.Timestamp(last.end) - pd.Timedelta(days=5)
    verdict = judge(join(snapshots, time, event_lag=pd.Timedelta(days=1)), view, NAMES, "known_at")
    assert (verdict.leaks, verdict.late, verdict.different) == (False, 0, 0)
    assert verdict.sampled == verdict.rows > 20


def test_value_of_the_same_midnight_leaks(snapshots: pd.DataFrame, view: SimpleNamespace, last: Partition) -> None:
    """The snapshot that ends at the observation is written two hours later: using it is a leak in every row."""
    time = pd.Timestamp(last.end) - pd.Timedelta(days=5)
    verdict = judge(join(snapshots, time, event_lag=pd.Timedelta(0)), view, NAMES, "known_at")
    assert verdict.leaks
    assert verdict.late == verdict.rows
    assert f"{verdict.rows} of {verdict.rows} rows created later" in verdict.seen
    assert f"user_id=1 at {time}" in verdict.seen


def test_superseded_value(snapshots: pd.DataFrame, view: SimpleNamespace, last: Partition) -> None:
    """A join that returns an older row than it should, as Feast's default store does, is found too."""
    time = pd.Timestamp(last.end) - pd.Timedelta(days=5)
    verdict = judge(join(snapshots, time, event_lag=pd.Timedelta(days=3)), view, NAMES, "known_at")
    assert (verdict.late, verdict.leaks) == (0, True)
    assert verdict.different > 0


def test_one_changed_value(snapshots: pd.DataFrame, view: SimpleNamespace, last: Partition) -> None:
    """One wrong number among all is named."""
    joined = join(snapshots, pd.Timestamp(last.end) - pd.Timedelta(days=5), event_lag=pd.Timedelta(days=1))
    joined.loc[3, "tenure_days"] += 0.5
    verdict = judge(joined, view, NAMES, "known_at")
    assert (verdict.different, verdict.leaks) == (1, True)
    assert f"user_id={joined.loc[3, 'user_id']}" in verdict.example


def test_expired_value_is_null(snapshots: pd.DataFrame, view: SimpleNamespace, last: Partition) -> None:
    """Beyond the view's TTL a null is right and a value is not."""
    joined = join(snapshots, pd.Timestamp(last.end) + pd.Timedelta(days=20), event_lag=pd.Timedelta(days=21))
    assert judge(joined, view, NAMES, "known_at").different == len(joined)
    joined[NAMES] = float("nan")
    assert judge(joined, view, NAMES, "known_at").different == 0


def test_snapshots_behind_a_url(snapshots: pd.DataFrame, view: SimpleNamespace, last: Partition) -> None:
    """Files that can't be opened by path are refused by name, before DuckDB tries."""
    joined = join(snapshots, pd.Timestamp(last.end) - pd.Timedelta(days=5), event_lag=pd.Timedelta(days=1))
    view.batch_source.path = "s3://churn/features/date=*/features.parquet"
    with pytest.raises(ConfigurationError, match="source of feature view purchases: expected a local or mounted path"):
        judge(joined, view, NAMES, "known_at")
