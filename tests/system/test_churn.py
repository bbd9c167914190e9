"""The shipped DAG end to end: scheduled, triggered and backfilled runs through Airflow's scheduler, on real parts."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from typing import Any

import pytest
from demo import data
from demo.pipeline import DAG, good_days
from demo.settings import MODEL

from airflow_provider_ragops.contract import TAG_PARTITION, Partition
from tests.system.conftest import Loop

pytestmark = [pytest.mark.cluster, pytest.mark.images, pytest.mark.timeout(900)]


@dataclass(frozen=True)
class Scheduled:
    """What the run that Airflow started by itself looked like."""

    partition: str
    waiting: list[str]


@pytest.fixture(scope="module")
def scheduled(airflow_standalone: Loop) -> Scheduled:
    """The just-unpaused DAG's own run waits for yesterday's data, which CDNOW does not have; it is ended then."""
    loop = airflow_standalone
    run_id = wait_for(lambda: next((one["dag_run_id"] for one in runs(loop, "scheduled")), None), 120)
    waits = lambda: loop.api.tasks(DAG, run_id).get("wait_for_partition") == "up_for_reschedule"  # noqa: E731
    wait_for(waits, 120)
    path = f"/dags/{DAG}/dagRuns/{run_id}"
    entry = loop.api.call("GET", f"{path}/taskInstances/partition/xcomEntries/return_value")
    log = loop.api.call("GET", f"{path}/taskInstances/wait_for_partition/logs/1?full_content=true")["content"]
    loop.api.call("PATCH", path, {"state": "failed"})
    return Scheduled(str(entry["value"]), [str(line) for line in log])


@pytest.fixture(scope="module")
def released(airflow_standalone: Loop, scheduled: Scheduled) -> list[date]:
    """Two partitions 30 days apart, trained, judged and released through the scheduler."""
    days = good_days(airflow_standalone.days)[-2:]
    for day in days:
        verdict = airflow_standalone.pipeline.train(day)
        assert verdict["verdict"] == "promote", verdict
    return days


def test_scheduled_run_takes_yesterday(scheduled: Scheduled) -> None:
    """The schedule's run is for the whole UTC day before, and says which files it is waiting for."""
    today = datetime.now(timezone.utc).date()
    # The last run that was due may have been due yesterday, and concerns the day before that.
    recent = {str(today - timedelta(days=1)), str(today - timedelta(days=2))}
    assert any(f"'key': '{day}'" in scheduled.partition or f'"key": "{day}"' in scheduled.partition for day in recent)
    assert any("is incomplete" in line and "_SUCCESS" in line for line in scheduled.waiting)


def test_two_partitions_are_released(airflow_standalone: Loop, released: list[date]) -> None:
    """Alias, Deployment, pods, ledger and Redis agree on the second partition's model."""
    world = airflow_standalone.world
    alias = world.alias()
    assert alias is not None
    assert world.versions(alias)["partition"] == str(released[-1])
    assert world.deployment_version() == alias
    assert set(world.pod_versions().values()) == {alias}
    assert len(world.pod_versions()) == 2
    newest = world.releases()[0]
    assert (newest["from"] is not None, newest["to"], newest["outcome"]) == (True, alias, "released")
    assert world.answer(alias)["reply"]["metadata"]["model_version"] == alias
    row = world.online_row(data.any_user(airflow_standalone.settings.features, released[-1]))
    assert None not in row.values()


@pytest.mark.parametrize(("fault", "told"), [
    ("negative-amount", "amount: greater_than_or_equal_to(0) failed 3 times"), ("dropped-column", "amount"),
    ("wrong-type", "amount"), ("future-timestamp", "event_timestamp"),
])  # fmt: skip
def test_broken_contract_touches_nothing(
    airflow_standalone: Loop, released: list[date], fault: str, told: str,
) -> None:
    """A partition that breaks its contract fails with column, check and count; champion and pods stay."""
    loop = airflow_standalone
    before = seen(loop)
    refusal = loop.pipeline.refuse_broken(released[-1] - timedelta(days=3), loop.settings.data, fault)
    assert told in refusal.reasons[0]
    assert seen(loop) == before


def test_backfills_train_and_never_release(airflow_standalone: Loop, released: list[date]) -> None:
    """Two backfills of one partition: one version, one feature state, judged, and nothing released."""
    loop, day = airflow_standalone, released[-1] - timedelta(days=7)
    before = seen(loop)
    states = []
    for _ in range(2):
        tasks = backfill(loop, day)
        assert (tasks["gate"], tasks["release"], tasks["alert"]) == ("success", "skipped", "skipped"), tasks
        versions = loop.world.registry.find(MODEL, {TAG_PARTITION: Partition.of_day(day).key})
        states.append([(one.version, one.run_id) for one in versions])
    assert len(states[0]) == 1
    assert states[0] == states[1]
    assert seen(loop) == before


def seen(loop: Loop) -> dict[str, Any]:
    """What users see: the alias, the template, each pod, and an online row of the newest partition."""
    user = data.any_user(loop.settings.features, good_days(loop.days)[-1])
    return {
        "alias": loop.world.alias(), "deployment": loop.world.deployment_version(),
        "pods": loop.world.pod_versions(), "row": loop.world.online_row(user), "releases": len(loop.world.releases()),
    }


def backfill(loop: Loop, day: date) -> dict[str, str]:
    """Backfill one day as the UI does; the states of its run's tasks."""
    known = {one["dag_run_id"] for one in runs(loop, "backfill")}
    start = datetime(day.year, day.month, day.day, tzinfo=timezone.utc)
    made = loop.api.call("POST", "/backfills", {
        "dag_id": DAG, "from_date": start.isoformat(), "to_date": (start + timedelta(hours=23)).isoformat(),
        "reprocess_behavior": "completed", "max_active_runs": 1,
    })
    new = lambda: [one for one in runs(loop, "backfill") if one["dag_run_id"] not in known]  # noqa: E731
    found = wait_for(new, 60)
    assert [one["partition_key"] for one in found] == [str(day)]
    done = loop.api.wait(DAG, found[0]["dag_run_id"], deadline=600, progress=lambda tasks: None)
    assert done.state == "success", done.tasks
    # The scheduler closes the backfill some time after its last run; until then it refuses another.
    wait_for(lambda: loop.api.call("GET", f"/backfills/{made['id']}")["completed_at"], 120)
    return done.tasks


def runs(loop: Loop, kind: str) -> Iterator[dict[str, Any]]:
    found: list[dict[str, Any]] = loop.api.call("GET", f"/dags/{DAG}/dagRuns?limit=100&run_type={kind}")["dag_runs"]
    return iter(found)


def wait_for(condition: Any, seconds: float) -> Any:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if found := condition():
            return found
        time.sleep(1)
    pytest.fail(f"nothing within {seconds:g} s")
