"""The DAG that looks after all targets, as Airflow parses it; how it runs: ``tests/system/test_faults.py``."""

from __future__ import annotations

from airflow_provider_ragops.locking.times import LockTimes
from airflow_provider_ragops.operators.reconcile import PATIENCE
from tests.unit.dags.parsing import parsed


def test_schedule() -> None:
    """Every 15 minutes, one at a time, without catching up; a deploy setting switches it off."""
    dag = parsed()["model_reconcile"]
    assert (dag["cron"], dag["schedulable"], dag["catchup"], dag["max_active_runs"]) == ("*/15 * * * *", True, False, 1)
    assert parsed("off")["model_reconcile"]["timetable"] == "NullTimetable"


def test_one_task_for_each_target() -> None:
    """A target that is added is looked after, with its own Redis; tasks do not wait for one another."""
    tasks = parsed()["model_reconcile"]["tasks"]
    assert {name: (task["after"], task["fields"]["target"]["namespace"], task["fields"]["redis_conn_id"])
            for name, task in tasks.items()} == {
        "reconcile_churn": ([], "elsewhere", "redis_serving"),
        "reconcile_rag": ([], "ml-rag", "redis_rag"),
        "reconcile_staging": ([], "ml-staging", "redis_staging"),
    }


def test_failures_tell_someone_and_nothing_waits_for_ever() -> None:
    """A person's edit fails the task, whose callback alerts; the limit leaves a dead lease, an undo and late pods."""
    for task in parsed()["model_reconcile"]["tasks"].values():
        assert (task["callback"], task["owner"]) == (["AlertNotifier"], "mlops-platform")
        assert task["limit"] >= 2 * LockTimes().lease + PATIENCE + 2 * task["rollout_timeout"] + 600


def test_repair_is_a_field_of_the_form() -> None:
    """Switched on unless a run says otherwise."""
    dag = parsed()["model_reconcile"]
    assert (dag["params"]["repair"]["type"], dag["params"]["repair"]["value"]) == ("boolean", True)
    assert {task["fields"]["repair"] for task in dag["tasks"].values()} == {"{{ params.repair }}"}
