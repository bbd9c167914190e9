"""Day folders on any fsspec file system: list them, digest them, publish a file whole."""

from __future__ import annotations

import hashlib
import uuid
from dataclasses import dataclass
from datetime import date, timedelta
from typing import TYPE_CHECKING

from airflow_provider_ragops.contract import (
    DAY_PREFIX,
    ONE_DAY,
    PARTITION_MARKER,
    PARTITION_PATTERN,
    Partition,
    day_folder,
)
from airflow_provider_ragops.exceptions import DataError

if TYPE_CHECKING:
    import duckdb
    from fsspec import AbstractFileSystem


@dataclass(frozen=True)
class DayFiles:
    """The data files of one day, sorted by name."""

    day: date
    paths: tuple[str, ...]


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
    """List all complete days up to the partition's last one.

    :raises DataError: when a day of the partition is missing, or any earlier folder lacks files or marker.
    """
    fs.invalidate_cache()
    files: dict[date, list[str]] = {}
    marked: set[date] = set()
    # One listing: asking for each day would cost a request per day and file on an object store.
    for path in sorted(fs.glob(f"{root}/{DAY_PREFIX}*/*")):
        folder, name = path.rsplit("/", 2)[1:]
        day = _day_of(root, folder)
        if day >= partition.end.date():
            continue
        if name == PARTITION_MARKER:
            marked.add(day)
        elif name.endswith(PARTITION_PATTERN.lstrip("*")) and not name.startswith("."):
            files.setdefault(day, []).append(path)
    broken = sorted((set(files) | set(partition.days)) - (marked & set(files)))
    if broken:
        raise DataError(
            f"history in {root} before {partition.end.isoformat()}",
            expected=f"files and {PARTITION_MARKER} in every day folder",
            seen=f"none or only one of them in {_name(broken)}",
            action="Finish or remove these folders, then clear this task.",
        )
    return History(tuple(DayFiles(day, tuple(files[day])) for day in sorted(files)))


def _day_of(root: str, folder: str) -> date:
    try:
        return date.fromisoformat(folder.removeprefix(DAY_PREFIX))
    except ValueError as error:
        raise DataError(
            f"folder {folder} in {root}", expected=f"the name {DAY_PREFIX}YYYY-MM-DD", seen=folder,
            action="Rename or remove it.",
        ) from error


def _name(days: list[date]) -> str:
    names = ", ".join(day_folder(day) for day in days[:5])
    return names + (f" and {len(days) - 5} more" if len(days) > 5 else "")


def duckdb_path(connection: duckdb.DuckDBPyConnection, fs: AbstractFileSystem, path: str) -> str:
    """How DuckDB names the path: as it is when local, else through fsspec."""
    if is_local(fs):
        return path
    connection.register_filesystem(fs)
    return str(fs.unstrip_protocol(path))


def publish(fs: AbstractFileSystem, path: str, content: bytes) -> None:
    """Write a file whole or not at all. Object stores put atomically; a local file is renamed into place."""
    fs.makedirs(path.rsplit("/", 1)[0], exist_ok=True)
    if not is_local(fs):
        fs.pipe_file(path, content)
        return
    folder, name = path.rsplit("/", 1)
    temporary = f"{folder}/.{name}.{uuid.uuid4().hex}.tmp"  # two writers at once must not share one
    fs.pipe_file(temporary, content)
    fs.mv(temporary, path)


def is_local(fs: AbstractFileSystem) -> bool:
    return "file" in ((fs.protocol,) if isinstance(fs.protocol, str) else fs.protocol)


def days_before(end: date, count: int) -> list[date]:
    """The ``count`` days that end with the day before ``end``, oldest first."""
    return [end - timedelta(days=back) for back in range(count, 0, -1)]
