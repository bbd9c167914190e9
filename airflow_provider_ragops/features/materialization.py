"""Writes one partition's feature rows to the online store and proves it by reading a sample back.

Airflow owns which intervals are done: Feast's own incremental state never returns to a window that failed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow_provider_ragops.contract import UTC, Partition
from airflow_provider_ragops.exceptions import ConfigurationError, DataError, MaterializationError
from airflow_provider_ragops.features.storage import local_source

if TYPE_CHECKING:
    from feast import FeatureStore, FeatureView

SAMPLE = 200
_POSTFIX = "__ts"  # Feast's suffix of the event time of an online value


@dataclass(frozen=True)
class MaterializationReport:
    """``equal`` rows hold the partition's values; ``kept_newer`` hold a later partition's and were not touched."""

    view: str
    partition: str
    rows: int
    checked: int
    equal: int
    kept_newer: int

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def materialize(
    store: FeatureStore, definitions: Sequence[Any], views: Sequence[str], partition: Partition, sample: int = SAMPLE
) -> list[MaterializationReport]:
    """Apply the definitions, write exactly the partition's rows, compare a sample of each view.

    Feast includes both ends of the interval, and a snapshot carries the end of its day: the interval starts just
    after the partition's start, or the day before would come along.

    :raises ConfigurationError: when a view is unknown, or its files are not on a local or mounted path.
    :raises DataError: when the partition has no feature rows.
    :raises MaterializationError: naming entity, feature and both values, when the online store differs.
    """
    store.apply(list(definitions))
    expected = {name: _offline_rows(store, name, partition) for name in views}
    store.materialize(partition.start + timedelta(microseconds=1), partition.end, list(views))
    return [_read_back(store, name, partition, expected[name], sample) for name in views]


def _offline_rows(store: FeatureStore, name: str, partition: Partition) -> list[dict[str, Any]]:
    """Read the newest row per entity within the partition straight from the files, in a random-looking fixed order."""
    import duckdb

    view = _view(store, name)
    source: Any = view.batch_source
    path = local_source(view)
    keys = ", ".join(f'"{key}"' for key in view.join_keys)
    created = f', "{source.created_timestamp_column}" DESC' if source.created_timestamp_column else ""
    query = f"""
        SELECT *, epoch_us("{source.timestamp_field}") AS event_us FROM read_parquet($path, hive_partitioning = false)
        WHERE epoch_us("{source.timestamp_field}") > $start AND epoch_us("{source.timestamp_field}") <= $end
        QUALIFY row_number() OVER (PARTITION BY {keys} ORDER BY "{source.timestamp_field}" DESC{created}) = 1
        ORDER BY md5(concat_ws('|', {keys}, $salt))
    """  # noqa: S608 - names come from the feature definitions
    bounds = {"start": _micros(partition.start), "end": _micros(partition.end), "salt": partition.key}
    with duckdb.connect() as connection:
        found = connection.sql(query, params={"path": path, **bounds})
        wanted = [*view.join_keys, *(feature.name for feature in view.features), "event_us"]
        rows = [dict(zip(wanted, row, strict=True)) for row in found.select(*wanted).fetchall()]
    if not rows:
        raise DataError(
            f"feature view {name}, partition {partition.key}", expected="at least one row in its interval",
            seen=f"none in {path}", action="Run the feature snapshots of this partition first.",
        )
    return rows


def _read_back(
    store: FeatureStore, name: str, partition: Partition, rows: Sequence[Mapping[str, Any]], sample: int
) -> MaterializationReport:
    view = _view(store, name)
    chosen = rows[:sample]
    features = [feature.name for feature in view.features]
    answer = store.get_online_features(
        features=[f"{name}:{feature}" for feature in features],
        entity_rows=[{key: row[key] for key in view.join_keys} for row in chosen],
    ).to_dict(include_event_timestamps=True)
    newer = 0
    for number, row in enumerate(chosen):
        online = {feature: answer[feature][number] for feature in features}
        if answer[f"{features[0]}{_POSTFIX}"][number] > row["event_us"] // 1_000_000:
            newer += 1  # a later partition is there already: Feast keeps it, and so it must be
            continue
        _compare(name, {key: row[key] for key in view.join_keys}, row, online)
    return MaterializationReport(name, partition.key, len(rows), len(chosen), len(chosen) - newer, newer)


def _compare(view: str, entity: Mapping[str, Any], offline: Mapping[str, Any], online: Mapping[str, Any]) -> None:
    for feature, value in online.items():
        if not _same(offline[feature], value):
            named = ", ".join(f"{key}={one}" for key, one in entity.items())
            raise MaterializationError(
                f"online row {named} of feature view {view}",
                expected=f"{feature}={offline[feature]} as in the snapshot",
                seen=f"{feature}={value}",
                action="A row of the same event time is never overwritten: if the snapshot was corrected, delete the "
                "online row; else check Redis' memory and materialize again.",
            )


def _same(offline: Any, online: Any) -> bool:
    if isinstance(offline, float) and math.isnan(offline):
        return online is None or (isinstance(online, float) and math.isnan(online))
    return bool(offline == online)


def _view(store: FeatureStore, name: str) -> FeatureView:
    known = {view.name: view for view in store.list_feature_views()}
    if name not in known:
        raise ConfigurationError(
            f"feature view {name}", expected=f"one of {', '.join(sorted(known)) or 'none'}", seen="no such view",
            action="Correct feature_views, or define it in the repository.",
        )
    return known[name]


def _micros(moment: datetime) -> int:
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
