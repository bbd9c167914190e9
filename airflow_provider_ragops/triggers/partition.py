"""Waiting for a partition's files: what is still missing, and the trigger that asks again and again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime
from typing import TYPE_CHECKING, Any

from airflow.triggers.base import BaseTrigger, TriggerEvent
from asgiref.sync import sync_to_async

from airflow_provider_ragops.contract import (
    PARTITION_MARKER,
    PARTITION_PATTERN,
    UTC,
    Partition,
    day_folder,
)
from airflow_provider_ragops.exceptions import RagopsError, UnreachableError
from airflow_provider_ragops.hooks.location import open_location

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem


def missing_parts(
    fs: AbstractFileSystem, root: str, partition: Partition, pattern: str, marker: str
) -> list[str]:
    """Say what each day of the partition lacks, as ``date=2026-11-29: no *.parquet, no _SUCCESS``.

    :raises UnreachableError: when the storage can't be listed.
    """
    try:
        fs.invalidate_cache()  # remote file systems keep listings, and a wait must see new files
        days = {day_folder(day): f"{root}/{day_folder(day)}" for day in partition.days}
        lacks = {
            name: [
                *([] if fs.glob(f"{folder}/{pattern}") else [f"no {pattern}"]),
                *([] if fs.exists(f"{folder}/{marker}") else [f"no {marker}"]),
            ]
            for name, folder in days.items()
        }
    except OSError as error:
        raise UnreachableError(
            f"storage of {root}", expected="a listing of its day folders", seen=str(error),
            action="Check the location, its connection and its permissions.",
        ) from error
    return [f"{name}: {', '.join(lack)}" for name, lack in lacks.items() if lack]


class PartitionTrigger(BaseTrigger):
    """
    Fire when every day of the partition has files and its marker, or at the deadline.

    The event is ``{"status": "complete" | "timeout" | "error", "missing": [...], "message": str}``. The deadline is
    a point in time, not a duration, because a trigger starts again when the triggerer restarts.

    :param location: where the day folders lie
    :param partition: key of the partition
    :param deadline: ISO time after which waiting ends
    :param poke_interval: seconds between two looks
    """

    def __init__(
        self, *, location: str, partition: str, deadline: str, poke_interval: float = 60.0,
        pattern: str = PARTITION_PATTERN, marker: str = PARTITION_MARKER, conn_id: str | None = None,
    ) -> None:
        super().__init__()
        self.location = location
        self.partition = partition
        self.deadline = deadline
        self.poke_interval = poke_interval
        self.pattern = pattern
        self.marker = marker
        self.conn_id = conn_id

    def serialize(self) -> tuple[str, dict[str, Any]]:
        fields = ("location", "partition", "deadline", "poke_interval", "pattern", "marker", "conn_id")
        return f"{type(self).__module__}.{type(self).__qualname__}", {name: getattr(self, name) for name in fields}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        deadline = datetime.fromisoformat(self.deadline)
        # fsspec blocks, and the loop is everybody's. Not asyncio.to_thread: connections are asked for through
        # asgiref, which finds its way back to this loop only from its own threads.
        look = sync_to_async(self._look, thread_sensitive=False)
        while True:
            try:
                missing = await look()
            except RagopsError as error:
                yield TriggerEvent({"status": "error", "missing": [], "message": str(error)})
                return
            left = (deadline - datetime.now(UTC)).total_seconds()
            if not missing or left <= 0:
                status = "timeout" if missing else "complete"
                yield TriggerEvent({"status": status, "missing": missing, "message": ""})
                return
            self.log.info("Partition %s is incomplete: %s", self.partition, "; ".join(missing))
            await asyncio.sleep(min(self.poke_interval, left))

    def _look(self) -> list[str]:
        fs, root = open_location(self.location, self.conn_id)
        return missing_parts(fs, root, Partition.parse(self.partition), self.pattern, self.marker)
