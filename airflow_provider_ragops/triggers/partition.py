"""Waiting for a partition's files: the trigger that asks again and again what is still missing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent
from asgiref.sync import sync_to_async

from airflow_provider_ragops.contract import UTC, Partition
from airflow_provider_ragops.exceptions import RagopsError
from airflow_provider_ragops.hooks.location import open_location
from airflow_provider_ragops.layout import incomplete, partition_days


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
        conn_id: str | None = None,
    ) -> None:
        super().__init__()
        self.location = location
        self.partition = partition
        self.deadline = deadline
        self.poke_interval = poke_interval
        self.conn_id = conn_id

    def serialize(self) -> tuple[str, dict[str, Any]]:
        fields = ("location", "partition", "deadline", "poke_interval", "conn_id")
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
        return incomplete(partition_days(fs, root, Partition.parse(self.partition)))
