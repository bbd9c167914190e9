"""Daily snapshots of every entity's features: the application's query over all history before each day's end.

``{target}/date=D/features.parquet`` holds what the query returns for D+1 00:00 UTC. Its ``event_timestamp`` is that
snapshot end; its ``created_timestamp`` is the end plus a fixed lag: when the value became knowable in production. The
wall clock plays no part, so the same input gives the same bytes on any day. The query's contract: :mod:`.query`.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_provider_ragops.contract import (
    COLUMN_CREATED,
    COLUMN_TIME,
    ONE_DAY,
    UTC,
    Partition,
    day_folder,
    digest,
)
from airflow_provider_ragops.exceptions import MissingExtraError
from airflow_provider_ragops.features.history import History, open_history, read_history
from airflow_provider_ragops.features.query import COLUMN_KNOWN, FeatureQuery, snapshots
from airflow_provider_ragops.features.storage import publish

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa
    from fsspec import AbstractFileSystem

HISTORY_DAYS = 180
LAG = timedelta(hours=2)
FEATURES_FILE = "features.parquet"
_DIGEST_KEY = b"ragops.input_digest"
_BATCH_DAYS = 30  # bounds memory: 30 days of 23,570 customers are 700,000 rows


@dataclass(frozen=True)
class SnapshotReport:
    """What a run wrote: ``rows`` counts the rows of the written days only; ``gaps`` are days without a folder."""

    written: tuple[str, ...] = ()
    unchanged: int = 0
    rows: int = 0
    gaps: tuple[str, ...] = ()


def write_snapshots(
    source: tuple[AbstractFileSystem, str], target: Path, partition: Partition, query: FeatureQuery, *,
    history_days: int = HISTORY_DAYS, lag: timedelta = LAG,
) -> SnapshotReport:
    """Write the snapshots of the ``history_days`` days that end with the partition's end.

    A day whose digest of input, query and lag is already in its file is skipped.

    :raises ConfigurationError: when the query breaks its contract.
    :raises DataError: when history is incomplete or can't be computed with.
    """
    try:
        import duckdb  # noqa: F401
        import pyarrow  # noqa: F401 - both are asked for here, and used below
    except ImportError as error:
        raise MissingExtraError.of("feature snapshots", error.name or "duckdb", "feast") from error
    history = read_history(*source, partition)
    wanted = _wanted(history, source[0], partition, history_days, digest(query.code, str(lag.total_seconds())))
    stale = [day for day, expected in wanted.items() if _stored_digest(_path(target, day)) != expected]
    rows = 0
    if stale:
        with open_history(source[0], history.paths) as connection:
            for day, table in _computed(connection, query, stale):
                publish(_path(target, day), _encode(table, day, lag, wanted[day]))
                rows += table.num_rows
    return SnapshotReport(
        tuple(day.isoformat() for day in stale), len(wanted) - len(stale), rows,
        tuple(day.isoformat() for day in history.gaps),
    )


def _wanted(
    history: History, fs: AbstractFileSystem, partition: Partition, history_days: int, salt: str
) -> dict[date, str]:
    """The digest that each snapshot must carry, oldest first."""
    digests = history.digests(fs, salt)
    end, first = partition.end.date(), history.days[0].day
    days = (end - ONE_DAY * back for back in range(history_days, 0, -1))
    return {day: digests[max(known for known in digests if known <= day)] for day in days if day >= first}


def _computed(
    connection: duckdb.DuckDBPyConnection, query: FeatureQuery, days: Sequence[date]
) -> Iterator[tuple[date, pa.Table]]:
    for batch in (days[start : start + _BATCH_DAYS] for start in range(0, len(days), _BATCH_DAYS)):
        ends = {_micros(day + ONE_DAY): day for day in batch}
        for end, table in snapshots(connection, query, list(ends)):
            yield ends[end], table


def _encode(table: pa.Table, day: date, lag: timedelta, input_digest: str) -> bytes:
    """Make the file's bytes. ``known_at`` repeats the creation time in seconds, as a value that Feast hands on."""
    import pyarrow as pa
    from pyarrow import parquet

    end = _micros(day + ONE_DAY)
    known = end + lag // timedelta(microseconds=1)
    count, stamp = table.num_rows, pa.timestamp("us", tz="UTC")
    for name, value, kind in (
        (COLUMN_KNOWN, known // 1_000_000, pa.int64()), (COLUMN_TIME, end, stamp), (COLUMN_CREATED, known, stamp),
    ):
        table = table.append_column(name, pa.array([value], kind).take(pa.array([0] * count, pa.int64())))
    content = io.BytesIO()
    parquet.write_table(table.replace_schema_metadata({_DIGEST_KEY: input_digest}), content, compression="zstd")
    return content.getvalue()


def _stored_digest(path: Path) -> str | None:
    from pyarrow import parquet

    try:
        metadata: dict[bytes, bytes] = parquet.read_schema(path).metadata or {}
    except FileNotFoundError:
        return None
    return metadata.get(_DIGEST_KEY, b"").decode()


def _path(target: Path, day: date) -> Path:
    return target / day_folder(day) / FEATURES_FILE


def _micros(day: date) -> int:
    return int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()) * 1_000_000
