"""Builds a training set: labels of the past, joined with what was known when each was asked.

Entities are observed at several times, see :mod:`.labels`. Feast joins the newest feature row that was *written* by
the observation time; nothing here trusts that join: see :mod:`.leakage`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_provider_ragops.contract import (
    COLUMN_ENTITY,
    COLUMN_LABEL,
    COLUMN_SPLIT,
    COLUMN_TIME,
    Partition,
    split_of,
)
from airflow_provider_ragops.exceptions import DataError, LeakageError
from airflow_provider_ragops.features.labels import Observations, label
from airflow_provider_ragops.features.leakage import LeakageVerdict, judge
from airflow_provider_ragops.features.query import COLUMN_KNOWN

if TYPE_CHECKING:
    import pandas as pd
    from feast import FeatureStore
    from fsspec import AbstractFileSystem

__all__ = ["MAX_NULL_SHARE", "Observations", "TrainingSet", "build", "write"]

MAX_NULL_SHARE = 0.05


@dataclass(frozen=True)
class TrainingSet:
    """The rows, ordered by time and entity; ``null_rows`` were counted and left out."""

    frame: pd.DataFrame
    cutoff: datetime
    null_rows: int
    leakage: LeakageVerdict

    def as_dict(self) -> dict[str, Any]:
        return {
            "rows": len(self.frame), "cutoff": self.cutoff.isoformat(), "null_rows": self.null_rows,
            "positive_share": round(float(self.frame[COLUMN_LABEL].mean()), 6),
            "held_out_rows": int((self.frame[COLUMN_SPLIT] == "held_out").sum()), "leakage": self.leakage.as_dict(),
        }


def build(
    store: FeatureStore, view: str, source: tuple[AbstractFileSystem, str], partition: Partition, *, model: str,
    observations: Observations | None = None,
) -> TrainingSet:
    """Label, join all features of the view, verify, split.

    :raises DataError: no observations, rows lost or doubled by the join, or more than 5 % rows with a null.
    :raises LeakageError: a row holds a value from after its observation time.
    """
    observations = observations or Observations()
    labels = label(source, partition, observations)
    names = [one.name for one in store.get_feature_view(view).features if one.name != COLUMN_KNOWN]
    joined = _join(store, view, labels, [*names, COLUMN_KNOWN])
    if len(joined) != len(labels):
        raise _error(partition, f"{len(labels)} rows out of the join, as went in", f"{len(joined)} rows",
                     "Use Feast's duckdb offline store: the default one loses rows.")
    verdict = judge(joined, store.get_feature_view(view), names, COLUMN_KNOWN)
    nulls = joined[names].isna().any(axis=1)
    _refuse(partition, verdict, float(nulls.mean()))
    frame = joined.loc[~nulls, [COLUMN_ENTITY, COLUMN_TIME, *names, COLUMN_LABEL]].reset_index(drop=True)
    sides = {entity: split_of(model, str(entity)) for entity in frame[COLUMN_ENTITY].unique()}
    frame[COLUMN_SPLIT] = frame[COLUMN_ENTITY].map(sides)
    return TrainingSet(frame, observations.times(partition)[-1], int(nulls.sum()), verdict)


def _refuse(partition: Partition, verdict: LeakageVerdict, null_share: float) -> None:
    if verdict.leaks:
        raise LeakageError(
            f"training set of partition {partition.key}", expected="only values known at each observation time",
            seen=verdict.seen, action="Check created_timestamp of the snapshots and filter_by_created_timestamp.",
        )
    if null_share > MAX_NULL_SHARE:
        raise _error(partition, f"at most {MAX_NULL_SHARE:.0%} rows with a null feature", f"{null_share:.1%}",
                     "Raise history_days of the snapshots to cover horizon, window and the view's TTL.")


def write(found: TrainingSet, path: Path) -> None:
    """Write the rows as Parquet: equal rows give equal bytes, hence an equal digest."""
    import pyarrow as pa
    from pyarrow import parquet

    table = pa.Table.from_pandas(found.frame, preserve_index=False)
    # pandas' metadata holds versions of libraries, which are no part of the content.
    parquet.write_table(table.replace_schema_metadata(None), path, compression="zstd")


def _join(store: FeatureStore, view: str, labels: pd.DataFrame, features: list[str]) -> pd.DataFrame:
    joined = store.get_historical_features(
        entity_df=labels, features=[f"{view}:{name}" for name in features], filter_by_created_timestamp=True
    ).to_df()
    joined[COLUMN_TIME] = joined[COLUMN_TIME].astype("datetime64[us, UTC]")
    # The join's order is no one's promise, and the digest of the file depends on it.
    return joined.sort_values([COLUMN_TIME, COLUMN_ENTITY], ignore_index=True)


def _error(partition: Partition, expected: str, seen: str, action: str) -> DataError:
    return DataError(f"training set of partition {partition.key}", expected=expected, seen=seen, action=action)
