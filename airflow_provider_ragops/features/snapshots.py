"""Daily snapshots of every customer's features, computed by DuckDB from all history before each day's end.

``{root}/date=D/features.parquet`` holds one row per customer with a purchase before D+1 00:00 UTC. Its
``event_timestamp`` is that snapshot end; its ``created_timestamp`` is the end plus a fixed lag: when the value became
knowable in production. The wall clock plays no part, so the same input gives the same bytes on any day.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING

from airflow_provider_ragops.contract import ONE_DAY, UTC, Partition, day_folder, digest
from airflow_provider_ragops.exceptions import DataError, MissingExtraError
from airflow_provider_ragops.features.storage import (
    days_before,
    duckdb_path,
    publish,
    read_history,
)

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa
    from fsspec import AbstractFileSystem

HISTORY_DAYS = 180
LAG = timedelta(hours=2)
FEATURES_FILE = "features.parquet"
_DIGEST_KEY = b"ragops.input_digest"
_BATCH_DAYS = 30  # bounds memory: 30 days of 23,570 customers are 700,000 rows

# Times are microseconds as BIGINT and amounts are DECIMAL: sums are exact, hence equal in any order of threads.
_LOAD = """
CREATE TEMP TABLE purchases AS
SELECT user_id::BIGINT AS user_id, epoch_us(event_timestamp) AS bought_us, amount::DECIMAL(18, 4) AS amount,
       items::BIGINT AS items
FROM read_parquet($paths, hive_partitioning = false)
"""
_DAY_US = 86_400_000_000
_SNAPSHOT = f"""
WITH ends AS (SELECT unnest($ends::BIGINT[]) AS snapshot_end),
totals AS (
    SELECT snapshot_end, user_id,
           min(bought_us) AS first_at, max(bought_us) AS last_at, count(*) AS lines,
           count(DISTINCT bought_us // {_DAY_US}) AS active_days,
           sum(amount) AS amount, sum(items) AS items,
           count(*) FILTER (WHERE bought_us >= snapshot_end - 30 * {_DAY_US}) AS lines_30d,
           count(*) FILTER (WHERE bought_us >= snapshot_end - 90 * {_DAY_US}) AS lines_90d,
           count(*) FILTER (WHERE bought_us >= snapshot_end - 180 * {_DAY_US}) AS lines_180d,
           sum(amount) FILTER (WHERE bought_us >= snapshot_end - 7 * {_DAY_US}) AS amount_7d,
           count(*) FILTER (WHERE bought_us >= snapshot_end - 7 * {_DAY_US}) AS lines_7d,
           sum(amount) FILTER (WHERE bought_us >= snapshot_end - 90 * {_DAY_US}) AS amount_90d
    FROM ends JOIN purchases ON bought_us < snapshot_end
    GROUP BY snapshot_end, user_id
)
SELECT snapshot_end, user_id,
       coalesce(amount_7d::DOUBLE / lines_7d, 0) AS avg_transaction_amount_7d,
       lines_30d::DOUBLE AS transaction_count_30d,
       lines_90d::DOUBLE AS transaction_count_90d,
       lines_180d::DOUBLE AS transaction_count_180d,
       coalesce(amount_90d::DOUBLE, 0) AS transaction_amount_90d,
       (snapshot_end - last_at) / {_DAY_US}.0 AS days_since_last_transaction,
       (snapshot_end - first_at) / {_DAY_US}.0 AS tenure_days,
       lines::DOUBLE AS transaction_count_total,
       active_days::DOUBLE AS active_days_total,
       amount::DOUBLE / lines AS avg_transaction_amount_total,
       items::DOUBLE / lines AS avg_items_total,
       CASE WHEN active_days > 1 THEN (last_at - first_at) / {_DAY_US}.0 / (active_days - 1)
            ELSE (snapshot_end - first_at) / {_DAY_US}.0 END AS mean_days_between_transactions
FROM totals ORDER BY snapshot_end, user_id
"""  # noqa: S608 - only the constant above is put in

FEATURES = (
    "avg_transaction_amount_7d", "transaction_count_30d", "transaction_count_90d", "transaction_count_180d",
    "transaction_amount_90d", "days_since_last_transaction", "tenure_days", "transaction_count_total",
    "active_days_total", "avg_transaction_amount_total", "avg_items_total", "mean_days_between_transactions",
)


@dataclass(frozen=True)
class SnapshotReport:
    """What a run wrote: ``rows`` counts the rows of the written days only."""

    written: tuple[str, ...] = ()
    unchanged: int = 0
    rows: int = 0
    gaps: tuple[str, ...] = field(default=())


def write_snapshots(
    source: tuple[AbstractFileSystem, str], target: tuple[AbstractFileSystem, str], partition: Partition,
    *, history_days: int = HISTORY_DAYS, lag: timedelta = LAG,
) -> SnapshotReport:
    """Write the snapshots of the ``history_days`` days that end with the partition's end.

    A day whose digest of input, code and lag is already in its file is skipped.

    :raises DataError: when history is incomplete, or a file does not hold the columns needed.
    """
    try:
        import duckdb  # noqa: F401
        import pyarrow  # noqa: F401 - both are asked for here, and used below
    except ImportError as error:
        raise MissingExtraError.of("feature snapshots", error.name or "duckdb", "feast") from error
    history = read_history(*source, partition)
    digests = history.digests(source[0], digest(_LOAD, _SNAPSHOT, str(lag.total_seconds())))
    first = history.days[0].day
    days = [day for day in days_before(partition.end.date(), history_days) if day >= first]
    wanted = {day: _digest_at(digests, day) for day in days}
    stale = [day for day in days if _stored_digest(*target, day) != wanted[day]]
    rows = 0
    if stale:
        connection = _load(source[0], history.paths)
        for day, table in _snapshots(connection, stale):
            publish(target[0], _path(target[1], day), _encode(table, day, lag, wanted[day]))
            rows += table.num_rows
    return SnapshotReport(
        tuple(day.isoformat() for day in stale), len(days) - len(stale), rows,
        tuple(day.isoformat() for day in history.gaps),
    )


def _load(fs: AbstractFileSystem, paths: list[str]) -> duckdb.DuckDBPyConnection:
    import duckdb

    connection = duckdb.connect()
    try:
        connection.execute(_LOAD, {"paths": [duckdb_path(connection, fs, path) for path in paths]})
    except duckdb.Error as error:
        raise DataError(
            f"history of {len(paths)} files up to {paths[-1]}",
            expected="Parquet files with user_id, event_timestamp, items and amount", seen=str(error),
            action="Validate the named file's partition and write it again.",
        ) from error
    return connection


def _snapshots(connection: duckdb.DuckDBPyConnection, days: Sequence[date]) -> Iterator[tuple[date, pa.Table]]:
    for batch in (days[start : start + _BATCH_DAYS] for start in range(0, len(days), _BATCH_DAYS)):
        ends = {day: _micros(day + ONE_DAY) for day in batch}
        found = connection.sql(_SNAPSHOT, params={"ends": list(ends.values())}).to_arrow_table()
        column = found["snapshot_end"].to_numpy()
        table = found.drop_columns(["snapshot_end"])
        for day, end in ends.items():
            start, stop = column.searchsorted(end, "left"), column.searchsorted(end, "right")
            yield day, table.slice(start, stop - start)


def _encode(table: pa.Table, day: date, lag: timedelta, input_digest: str) -> bytes:
    """Make the file's bytes. ``known_at`` repeats the creation time in seconds, as a value that Feast hands on."""
    import pyarrow as pa
    from pyarrow import parquet

    end = _micros(day + ONE_DAY)
    known = end + lag // timedelta(microseconds=1)
    count, stamp = table.num_rows, pa.timestamp("us", tz="UTC")
    for name, value, kind in (
        ("known_at", known // 1_000_000, pa.int64()),
        ("event_timestamp", end, stamp),
        ("created_timestamp", known, stamp),
    ):
        table = table.append_column(name, pa.array([value], kind).take(pa.array([0] * count, pa.int64())))
    content = io.BytesIO()
    parquet.write_table(table.replace_schema_metadata({_DIGEST_KEY: input_digest}), content, compression="zstd")
    return content.getvalue()


def _stored_digest(fs: AbstractFileSystem, root: str, day: date) -> str | None:
    from pyarrow import parquet

    try:
        with fs.open(_path(root, day), "rb") as stream:
            metadata: dict[bytes, bytes] = parquet.read_schema(stream).metadata or {}
    except FileNotFoundError:
        return None
    return metadata.get(_DIGEST_KEY, b"").decode()


def _digest_at(digests: dict[date, str], day: date) -> str:
    return digests[max(known for known in digests if known <= day)]


def _path(root: str, day: date) -> str:
    return f"{root}/{day_folder(day)}/{FEATURES_FILE}"


def _micros(day: date) -> int:
    return int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()) * 1_000_000
