"""History: all events before a partition's end, read through fsspec from any storage that the workers reach."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING

from airflow_provider_ragops.contract import (
    COLUMN_TIME,
    ONE_DAY,
    PARTITION_MARKER,
    PARTITION_PATTERN,
    Partition,
)
from airflow_provider_ragops.exceptions import DataError
from airflow_provider_ragops.layout import DayFiles, history_days, incomplete

if TYPE_CHECKING:
    import duckdb
    from fsspec import AbstractFileSystem

EVENTS = f"""
CREATE TEMP TABLE events AS
SELECT epoch_us({COLUMN_TIME}) AS event_us, * FROM read_parquet($paths, hive_partitioning = false)
"""  # noqa: S608 - only column names of the contract are put in
_SHOWN = 5  # incomplete days in an error


@dataclass(frozen=True)
class History:
    """All days of a data set before a partition's end, oldest first; ``gaps`` are days without a folder."""

    days: tuple[DayFiles, ...]

    @property
    def gaps(self) -> list[date]:
        present = {one.day for one in self.days}
        first, last = self.days[0].day, self.days[-1].day
        every = (first + ONE_DAY * number for number in range((last - first).days))
        return [day for day in every if day not in present]

    @property
    def paths(self) -> list[str]:
        return [path for one in self.days for path in one.paths]

    def digests(self, fs: AbstractFileSystem, salt: str) -> dict[date, str]:
        """Digest all data up to and including each day: a chain, so that an old correction shows in later days."""
        chain, found = salt.encode(), {}
        for one in self.days:
            contents = b"".join(hashlib.sha256(fs.cat_file(path)).digest() for path in one.paths)
            chain = hashlib.sha256(chain + one.day.isoformat().encode() + contents).digest()
            found[one.day] = chain.hex()
        return found


def read_history(fs: AbstractFileSystem, root: str, partition: Partition) -> History:
    """List all days up to the partition's last one.

    :raises DataError: when a day of the partition is missing, or any earlier folder lacks files or marker.
    :raises UnreachableError: when the storage can't be listed.
    """
    days = history_days(fs, root, partition)
    if broken := incomplete(days):
        more = f"; and {len(broken) - _SHOWN} more" if len(broken) > _SHOWN else ""
        raise DataError(
            f"history in {root} before {partition.end.isoformat()}",
            expected=f"{PARTITION_PATTERN} and {PARTITION_MARKER} in every day folder",
            seen="; ".join(broken[:_SHOWN]) + more,
            action="Finish or remove these folders, then clear this task.",
        )
    return History(tuple(days))


def duckdb_paths(connection: duckdb.DuckDBPyConnection, fs: AbstractFileSystem, paths: list[str]) -> list[str]:
    """How DuckDB names files of the history: as they are when local, else through fsspec."""
    if "file" in ((fs.protocol,) if isinstance(fs.protocol, str) else fs.protocol):
        return paths
    connection.register_filesystem(fs)
    return [str(fs.unstrip_protocol(path)) for path in paths]


def open_history(fs: AbstractFileSystem, paths: list[str]) -> duckdb.DuckDBPyConnection:
    """Load the events of all files.

    :raises DataError: when a file can't be read, or lacks a column that the first one has.
    """
    import duckdb

    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")  # a query's dates must not follow the machine's zone
    try:
        connection.execute(EVENTS, {"paths": duckdb_paths(connection, fs, paths)})
    except duckdb.Error as error:
        raise DataError(
            f"history of {len(paths)} files up to {paths[-1]}",
            expected=f"Parquet files of equal columns, {COLUMN_TIME} among them", seen=str(error),
            action="Validate the named file's partition and write it again.",
        ) from error
    return connection
