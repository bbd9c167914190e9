"""The partition sensor says the same in every mode."""

from __future__ import annotations

import asyncio
import threading
import time
from datetime import datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest
from airflow.sdk.exceptions import (
    AirflowFailException,
    AirflowRescheduleException,
    AirflowSensorTimeout,
    AirflowSkipException,
    TaskDeferred,
)

from airflow_provider_ragops.contract import PARTITION_MARKER, UTC
from airflow_provider_ragops.exceptions import UnreachableError
from airflow_provider_ragops.sensors.partition import PartitionSensor
from airflow_provider_ragops.triggers.partition import PartitionTrigger

DAYS = "2026-11-28_2026-11-29"


def deliver(location: Path, day: str, *, file: bool = True, marker: bool = True) -> None:
    folder = location / f"date={day}"
    folder.mkdir(parents=True, exist_ok=True)
    if file:
        (folder / "part-0.parquet").touch()
    if marker:
        (folder / PARTITION_MARKER).touch()


def sensor(location: object, **options: Any) -> PartitionSensor:
    return PartitionSensor(task_id="wait", location=str(location), partition=DAYS, **options)


def context(waited: timedelta = timedelta(0)) -> dict[str, Any]:
    first = datetime.now(UTC) - waited
    return {"ti": SimpleNamespace(get_first_reschedule_date=lambda context: first)}


def trigger(location: Path, **options: Any) -> PartitionTrigger:
    deadline = (datetime.now(UTC) + timedelta(seconds=options.pop("wait", 5))).isoformat()
    values = {"location": str(location), "partition": DAYS, "deadline": deadline, "poke_interval": 0.02, **options}
    return PartitionTrigger(**values)


async def first_event(found: PartitionTrigger) -> dict[str, Any]:
    async for event in found.run():
        return dict(event.payload)
    raise AssertionError("the trigger ended without an event")


def test_complete_partition(tmp_path: Path) -> None:
    """Files and markers of every day: success, in both modes without waiting."""
    deliver(tmp_path, "2026-11-28")
    deliver(tmp_path, "2026-11-29")
    assert sensor(tmp_path).execute(context()) is None
    assert sensor(tmp_path, deferrable=True).execute(context()) is None
    assert asyncio.run(first_event(trigger(tmp_path))) == {"status": "complete", "missing": [], "message": ""}


def test_says_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each day's lack is logged: files, marker or both; the sensor gives its slot back."""
    log = MagicMock()
    monkeypatch.setattr(PartitionSensor, "log", log)
    deliver(tmp_path, "2026-11-28", marker=False)
    with pytest.raises(AirflowRescheduleException):
        sensor(tmp_path, timeout=60).execute(context())
    assert [call.args[2] for call in log.info.call_args_list] == [
        "date=2026-11-28: no _SUCCESS", "date=2026-11-29: no *.parquet, no _SUCCESS",
    ]


def test_timeout_names_the_missing(tmp_path: Path) -> None:
    """Rescheduled or deferred, the timeout names location, day and lack."""
    deliver(tmp_path, "2026-11-28")
    deliver(tmp_path, "2026-11-29", file=False)
    told = r"partition 2026-11-28_2026-11-29 in .*still missing: date=2026-11-29: no \*.parquet\."
    with pytest.raises(AirflowSensorTimeout, match=told):
        sensor(tmp_path, timeout=60).execute(context(waited=timedelta(seconds=61)))
    event = asyncio.run(first_event(trigger(tmp_path, wait=0.05)))
    assert event["status"] == "timeout"
    with pytest.raises(AirflowSensorTimeout, match=told):
        sensor(tmp_path, timeout=60, deferrable=True).execute_complete(context(), event)


def test_soft_fail_skips_in_every_mode(tmp_path: Path) -> None:
    """With soft_fail a timeout is a skip, rescheduled or deferred."""
    event = {"status": "timeout", "missing": ["date=2026-11-28: no _SUCCESS"], "message": ""}
    with pytest.raises(AirflowSkipException):
        sensor(tmp_path, timeout=60, soft_fail=True).execute(context(waited=timedelta(seconds=61)))
    with pytest.raises(AirflowSkipException):
        sensor(tmp_path, soft_fail=True, deferrable=True).resume_execution(
            "execute_complete", {"event": event}, context()
        )


def test_defers_with_a_deadline(tmp_path: Path) -> None:
    """The trigger gets the same location, days and names, and a deadline; it can be rebuilt from what it serializes."""
    with pytest.raises(TaskDeferred) as deferred:
        sensor(tmp_path, timeout=60, deferrable=True, poke_interval=7).execute(context())
    path, values = deferred.value.trigger.serialize()
    assert path == "airflow_provider_ragops.triggers.partition.PartitionTrigger"
    left = datetime.fromisoformat(values["deadline"]) - datetime.now(UTC)
    assert timedelta(seconds=50) < left <= timedelta(seconds=60)
    assert (values["partition"], values["poke_interval"]) == (DAYS, 7)
    assert PartitionTrigger(**values).serialize() == (path, values)


def test_trigger_sees_a_late_delivery(tmp_path: Path) -> None:
    """What arrives while the trigger waits ends the wait."""

    async def wait() -> dict[str, Any]:
        event = asyncio.create_task(first_event(trigger(tmp_path)))
        await asyncio.sleep(0.1)
        deliver(tmp_path, "2026-11-28")
        deliver(tmp_path, "2026-11-29")
        return await event

    assert asyncio.run(wait())["status"] == "complete"


def test_trigger_leaves_the_loop_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A storage that answers slowly holds up a thread, never the loop that all triggers share."""
    threads: list[str] = []

    def slow(*args: object) -> list[str]:
        threads.append(threading.current_thread().name)
        time.sleep(0.3)
        return []

    monkeypatch.setattr("airflow_provider_ragops.triggers.partition.partition_days", slow)

    async def count() -> int:
        event, ticks = asyncio.create_task(first_event(trigger(tmp_path))), 0
        while not event.done():
            await asyncio.sleep(0.01)
            ticks += 1
        return ticks

    assert asyncio.run(count()) > 10
    assert threads[0] != threading.main_thread().name


def test_bad_partition_and_location_fail_for_good(tmp_path: Path) -> None:
    """What no waiting can cure ends at once, naming what to correct; the trigger says the same."""
    wrong = PartitionSensor(task_id="wait", location=str(tmp_path), partition="yesterday")
    with pytest.raises(AirflowFailException, match="partition 'yesterday': expected YYYY-MM-DD"):
        wrong.execute(context())
    with pytest.raises(AirflowFailException, match="data location: expected a path or an URL"):
        sensor("None").execute(context())
    with pytest.raises(AirflowFailException, match="data location nosuch://bucket"):
        sensor("nosuch://bucket").execute(context())
    event = asyncio.run(first_event(trigger(tmp_path, partition="yesterday")))
    assert event["status"] == "error"
    assert "expected YYYY-MM-DD" in event["message"]


def test_storage_that_does_not_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A storage error names the location and stays retryable, in both modes."""

    def broken(self: object, path: str, **options: object) -> list[str]:
        raise ConnectionError("no route to host")

    monkeypatch.setattr("fsspec.implementations.local.LocalFileSystem.glob", broken)
    with pytest.raises(UnreachableError, match=f"storage of {tmp_path}.*no route to host"):
        sensor(tmp_path).execute(context())
    event = asyncio.run(first_event(trigger(tmp_path)))
    with pytest.raises(UnreachableError, match="no route to host"):
        sensor(tmp_path, deferrable=True).execute_complete(context(), event)
