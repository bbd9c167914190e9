"""The DAG that looks at all targets' guardrails, as Airflow parses it."""

from __future__ import annotations

from tests.unit.dags.parsing import parsed


def test_schedule() -> None:
    """Every 15 minutes, one at a time, without catching up; the setting of the reconcile switches it off, too."""
    dag = parsed()["model_guardrail"]
    assert (dag["cron"], dag["schedulable"], dag["catchup"], dag["max_active_runs"]) == ("*/15 * * * *", True, False, 1)
    assert parsed("off")["model_guardrail"]["timetable"] == "NullTimetable"


def test_one_task_for_each_target_that_tells_someone() -> None:
    """A target that is added is looked at, with its own Redis; a breach calls back; no task waits for another."""
    tasks = parsed()["model_guardrail"]["tasks"]
    assert {name: (task["after"], task["fields"]["target"]["namespace"], task["fields"]["redis_conn_id"])
            for name, task in tasks.items()} == {
        "guardrail_churn": ([], "elsewhere", "redis_serving"),
        "guardrail_rag": ([], "ml-rag", "redis_rag"),
        "guardrail_staging": ([], "ml-staging", "redis_staging"),
    }
    assert {tuple(task["callback"]) for task in tasks.values()} == {("AlertNotifier",)}


def test_no_second_goes_unread() -> None:
    """The logs are read for longer than the interval between two runs."""
    for task in parsed()["model_guardrail"]["tasks"].values():
        assert 15 * 60 < task["fields"]["since"] < 20 * 60
        assert task["fields"]["expected_keys"] == "{{ params.expected_keys }}"
