"""The feature operator: counts back, and refusals that no retry can cure."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_ragops.operators.features import FeatureSnapshotOperator
from tests.fakes import purchases


def operator(tmp_path: Path, **options: Any) -> FeatureSnapshotOperator:
    values = {
        "task_id": "features", "query": "churn.features.daily:QUERY", "location": str(tmp_path / "transactions"),
        "features_location": str(tmp_path / "features"), "partition": purchases.LAST.key, "history_days": 4,
    }
    return FeatureSnapshotOperator(**values | options)


def test_returns_counts(tmp_path: Path) -> None:
    """Counts of snapshots written and unchanged, rows, and days of history without a folder; a rerun writes none."""
    source = purchases.write(tmp_path / "transactions")
    missing = source / f"date={purchases.FIRST.replace(day=5)}"
    for path in missing.iterdir():
        path.unlink()
    missing.rmdir()
    first, again = operator(tmp_path).execute({}), operator(tmp_path).execute({})
    assert first == {"written": 4, "unchanged": 0, "rows": first["rows"], "gaps": 1}
    assert first["rows"] > 100
    assert again == {"written": 0, "unchanged": 4, "rows": 0, "gaps": 1}


@pytest.mark.parametrize(("options", "told"), [
    ({"features_location": "s3://churn/features"}, "features location: expected a local or mounted path; saw 's3://"),
    ({"features_location": ""}, "features location: expected a local or mounted path; saw ''"),
    ({"query": "churn.nosuch:QUERY"}, "feature query 'churn.nosuch:QUERY': expected package.module:attribute"),
    ({"partition": "yesterday"}, "partition 'yesterday': expected YYYY-MM-DD"),
])
def test_wrong_settings_fail_for_good(tmp_path: Path, options: dict[str, str], told: str) -> None:
    """A setting that can't work ends the task without a retry, before the history is looked at."""
    with pytest.raises(AirflowFailException, match=told):
        operator(tmp_path, **options).execute({})
