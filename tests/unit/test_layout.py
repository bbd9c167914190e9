"""The layout of partitioned data: what counts as a complete day, and that every step agrees on it."""

from __future__ import annotations

from pathlib import Path

import fsspec
import pytest
from churn import cdnow

from airflow_provider_ragops.contract import Partition
from airflow_provider_ragops.exceptions import DataError, UnreachableError
from airflow_provider_ragops.features.history import read_history
from airflow_provider_ragops.layout import DayFiles, history_days, incomplete, partition_days
from airflow_provider_ragops.sensors.partition import PartitionSensor
from airflow_provider_ragops.validation.reading import read_partition

FS = fsspec.filesystem("file")
PARTITION = Partition.parse("2026-11-28_2026-11-29")
ROW = {"line_id": "x", "user_id": 1, "items": 1, "amount": 1.0}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for start in (PARTITION.start, PARTITION.end - (PARTITION.end - PARTITION.start) / 2):
        cdnow.write_day(tmp_path, start.date(), [{**ROW, "event_timestamp": start}])
    return tmp_path


def sensed(root: Path) -> bool:
    sensor = PartitionSensor(task_id="wait", location=str(root), partition=PARTITION.key)
    return sensor.poke({})


def accepted(step: object, root: Path) -> bool:
    try:
        step(FS, str(root), PARTITION)  # type: ignore[operator]
    except DataError:
        return False
    return True


@pytest.mark.parametrize(("replaced", "complete"), [
    ({}, True),
    ({"_SUCCESS": "_SUCCESS"}, True),
    ({"_SUCCESS": "DONE"}, False),
    ({"_SUCCESS": "_SUCCESS.crc"}, False),
    ({"part-0.parquet": "other-name.parquet"}, True),
    ({"part-0.parquet": ".part-0.parquet"}, False),
    ({"part-0.parquet": "part-0.csv"}, False),
    ({"part-0.parquet": "part-0.PARQUET"}, False),
    ({"part-0.parquet": ".part-0.parquet", "_SUCCESS": "DONE"}, False),
])
def test_every_step_agrees(root: Path, replaced: dict[str, str], complete: bool) -> None:
    """What the sensor takes for complete, contract check and features read; what it waits for, they refuse."""
    for old, new in replaced.items():
        (root / "date=2026-11-29" / old).rename(root / "date=2026-11-29" / new)
    steps = (sensed(root), accepted(read_partition, root), accepted(read_history, root))
    assert steps == (complete, complete, complete)


def test_days_of_a_partition(root: Path) -> None:
    """Each day is there, with its files by name; one without a folder lacks everything."""
    (root / "date=2026-11-28" / "a.parquet").touch()
    wider = Partition.parse("2026-11-28_2026-11-30")
    first, second, third = partition_days(FS, str(root), wider)
    assert [Path(path).name for path in first.paths] == ["a.parquet", "part-0.parquet"]
    assert (first.complete, second.complete) == (True, True)
    assert third == DayFiles(wider.end.date() - (wider.end - PARTITION.end))
    assert incomplete([first, second, third]) == ["date=2026-11-30: no *.parquet, no _SUCCESS"]


def test_history_has_the_days_before(root: Path) -> None:
    """History ends with the partition's last day; a folder without files is there and incomplete, an absent one not."""
    cdnow.write_day(root, Partition.parse("2026-11-20").start.date(), [{**ROW, "event_timestamp": PARTITION.start}])
    cdnow.write_day(root, Partition.parse("2026-12-01").start.date(), [{**ROW, "event_timestamp": PARTITION.start}])
    (root / "date=2026-11-21").mkdir()
    (root / "date=2026-11-21" / "_SUCCESS").touch()
    found = history_days(FS, str(root), PARTITION)
    assert list(map(str, found)) == [
        "date=2026-11-20: complete", "date=2026-11-21: no *.parquet", "date=2026-11-28: complete",
        "date=2026-11-29: complete",
    ]


def test_folder_that_is_no_day(root: Path) -> None:
    """A folder under a name that is no day is named; it might be the missing one, misspelt."""
    (root / "date=2026-11-31").mkdir()
    (root / "date=2026-11-31" / "part-0.parquet").touch()
    with pytest.raises(DataError, match=r"folder date=2026-11-31 in .*: expected the name date=YYYY-MM-DD"):
        history_days(FS, str(root), PARTITION)


@pytest.mark.parametrize("step", [partition_days, history_days, read_partition, read_history])
def test_storage_that_does_not_answer(root: Path, step: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """A storage that can't be listed is named in every step, and may be asked again."""

    def broken(self: object, path: str, **options: object) -> list[str]:
        raise ConnectionError("no route to host")

    monkeypatch.setattr("fsspec.implementations.local.LocalFileSystem.glob", broken)
    with pytest.raises(UnreachableError, match=f"storage of {root}.*no route to host"):
        step(FS, str(root), PARTITION)  # type: ignore[operator]
