"""Reads one partition as it is, without repairing anything."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_ragops.contract import PARTITION_MARKER, PARTITION_PATTERN, Partition
from airflow_provider_ragops.exceptions import DataError, MissingExtraError
from airflow_provider_ragops.layout import incomplete, partition_days

if TYPE_CHECKING:
    import pandas as pd
    from fsspec import AbstractFileSystem


def read_partition(fs: AbstractFileSystem, root: str, partition: Partition) -> pd.DataFrame:
    """Read the rows of all days of the partition.

    :raises DataError: when a day lacks its files or marker, a file is no Parquet, or there are no rows.
    :raises UnreachableError: when the storage can't be listed.
    """
    try:
        import pandas as pd
        import pyarrow  # noqa: F401 - asked for here, used below
    except ImportError as error:
        raise MissingExtraError.of("reading a partition", error.name or "pandas", "pandera") from error
    frames = [_read_file(fs, path) for path in _paths(fs, root, partition)]
    frame = pd.concat(frames, ignore_index=True)
    if frame.empty:
        raise _partition_error(partition, root, "at least one row", f"{len(frames)} files without a row")
    return frame


def _paths(fs: AbstractFileSystem, root: str, partition: Partition) -> list[str]:
    days = partition_days(fs, root, partition)
    if missing := incomplete(days):
        expected = f"{PARTITION_PATTERN} and {PARTITION_MARKER} for each day"
        raise _partition_error(partition, root, expected, "; ".join(missing))
    return [path for one in days for path in one.paths]


def _read_file(fs: AbstractFileSystem, path: str) -> pd.DataFrame:
    import pyarrow as pa
    from pyarrow import parquet

    try:
        with fs.open(path, "rb") as stream:
            # One file, not a data set: the folder name date=… must not become a column.
            return parquet.ParquetFile(stream).read().to_pandas()
    except pa.ArrowInvalid as error:
        raise DataError(
            f"file {path}", expected="a Parquet file", seen=str(error),
            action="Write the partition again; the marker must come last.",
        ) from error


def _partition_error(partition: Partition, root: str, expected: str, seen: str) -> DataError:
    return DataError(
        f"partition {partition.key} in {root}", expected=expected, seen=seen,
        action="Write the partition's files, then its marker, and clear this task.",
    )
