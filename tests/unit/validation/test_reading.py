"""Reading a partition: what is missing, empty or unreadable is an error that names it."""

from __future__ import annotations

from pathlib import Path

import fsspec
import pytest
from churn import cdnow

from airflow_provider_ragops.contract import Partition
from airflow_provider_ragops.exceptions import DataError
from airflow_provider_ragops.validation.reading import read_partition

FS = fsspec.filesystem("file")


def test_rows_of_all_days(location: Path) -> None:
    """A partition of several days is read as one frame; the folder's name makes no column."""
    rows = read_partition(FS, str(location), Partition.parse("2026-11-29")).to_dict("records")
    cdnow.write_day(location, Partition.parse("2026-11-28").start.date(), rows[:2])
    frame = read_partition(FS, str(location), Partition.parse("2026-11-28_2026-11-29"))
    assert len(frame) == 8
    assert list(frame) == ["line_id", "user_id", "event_timestamp", "items", "amount"]


def test_missing_day(location: Path) -> None:
    """A day without files is named with its folder."""
    with pytest.raises(DataError, match=r"partition 2026-11-28_2026-11-29 .*date=2026-11-28: no \*\.parquet, no _SUCC"):
        read_partition(FS, str(location), Partition.parse("2026-11-28_2026-11-29"))


def test_missing_marker(location: Path, partition: Partition) -> None:
    """A day that is still being written is not read."""
    (location / "date=2026-11-29" / "_SUCCESS").unlink()
    with pytest.raises(DataError, match=r"saw date=2026-11-29: no _SUCCESS\."):
        read_partition(FS, str(location), partition)


def test_empty_partition(location: Path, partition: Partition) -> None:
    """F4: files without a row are an error, not a valid day."""
    cdnow.write_day(location, next(partition.days), [])
    with pytest.raises(DataError, match="expected at least one row; saw 1 files without a row"):
        read_partition(FS, str(location), partition)


@pytest.mark.parametrize("content", [b"", b"no parquet at all"])
def test_unreadable_file(location: Path, partition: Partition, content: bytes) -> None:
    """A file of zero bytes, or of something else, is named."""
    (location / "date=2026-11-29" / "part-0.parquet").write_bytes(content)
    with pytest.raises(DataError, match=r"file .*/date=2026-11-29/part-0.parquet: expected a Parquet file"):
        read_partition(FS, str(location), partition)
