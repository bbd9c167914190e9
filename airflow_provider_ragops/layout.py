"""The layout of partitioned data: ``{root}/date=YYYY-MM-DD/*.parquet``, and the marker once the day is complete.

Sensor, contract check and features all look at days through this module, so that none takes for complete what another
refuses. Works on any fsspec file system; the names are constants of :mod:`.contract`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from airflow_provider_ragops.contract import (
    DAY_PREFIX,
    PARTITION_MARKER,
    PARTITION_PATTERN,
    Partition,
    day_folder,
)
from airflow_provider_ragops.exceptions import DataError, UnreachableError

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem


@dataclass(frozen=True)
class DayFiles:
    """The data files of one day, sorted by name, and whether the marker is there."""

    day: date
    paths: tuple[str, ...] = ()
    marked: bool = False

    @property
    def complete(self) -> bool:
        return bool(self.paths) and self.marked

    def __str__(self) -> str:
        """What the day lacks, as ``date=2026-11-29: no *.parquet, no _SUCCESS``."""
        lacks = [f"no {PARTITION_PATTERN}"] * (not self.paths) + [f"no {PARTITION_MARKER}"] * (not self.marked)
        return f"{day_folder(self.day)}: {', '.join(lacks) or 'complete'}"


def partition_days(fs: AbstractFileSystem, root: str, partition: Partition) -> list[DayFiles]:
    """Look at each day of the partition, whether it has a folder or not.

    :raises UnreachableError: when the storage can't be listed.
    """
    found = _days(root, _list(fs, root, [day_folder(day) for day in partition.days]))
    return [found.get(day, DayFiles(day)) for day in partition.days]


def history_days(fs: AbstractFileSystem, root: str, partition: Partition) -> list[DayFiles]:
    """Look at every day folder up to the partition's last day, oldest first; the partition's days in any case.

    :raises UnreachableError: when the storage can't be listed.
    :raises DataError: when a folder's name is no day.
    """
    # One listing: asking for each day would cost a request per day on an object store.
    found = {day: DayFiles(day) for day in partition.days} | _days(root, _list(fs, root, [f"{DAY_PREFIX}*"]))
    return [found[day] for day in sorted(found) if day < partition.end.date()]


def incomplete(days: list[DayFiles]) -> list[str]:
    """Say what each day lacks that is not complete."""
    return [str(one) for one in days if not one.complete]


def _list(fs: AbstractFileSystem, root: str, folders: list[str]) -> list[str]:
    try:
        fs.invalidate_cache()  # remote file systems keep listings, and a wait must see new files
        return [path for folder in folders for path in fs.glob(f"{root}/{folder}/*")]
    except OSError as error:
        raise UnreachableError(
            f"storage of {root}", expected="a listing of its day folders", seen=str(error),
            action="Check the location, its connection and its permissions.",
        ) from error


def _days(root: str, paths: list[str]) -> dict[date, DayFiles]:
    folders: dict[str, list[str]] = {}
    for path in paths:
        folders.setdefault(path.rsplit("/", 2)[1], []).append(path)
    return {day: _day(day, files) for day, files in ((_parse(root, name), files) for name, files in folders.items())}


def _day(day: date, files: list[str]) -> DayFiles:
    names = {path: path.rsplit("/", 1)[1] for path in sorted(files)}
    # Writers keep their unfinished files beside the others, under a name that begins with a dot.
    data = (path for path, name in names.items() if fnmatchcase(name, PARTITION_PATTERN) and not name.startswith("."))
    return DayFiles(day, tuple(data), PARTITION_MARKER in names.values())


def _parse(root: str, folder: str) -> date:
    try:
        return date.fromisoformat(folder.removeprefix(DAY_PREFIX))
    except ValueError as error:
        raise DataError(
            f"folder {folder} in {root}", expected=f"the name {DAY_PREFIX}YYYY-MM-DD", seen=folder,
            action="Rename or remove it.",
        ) from error
