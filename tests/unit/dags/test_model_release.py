"""The form for people, as Airflow parses it; how it runs: ``tests/system/test_model_release.py``."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.sdk.exceptions import ParamValidationError
from airflow.serialization.serialized_objects import DagSerialization

from airflow_provider_ragops.contract import ServingTarget
from airflow_provider_ragops.locking.times import LockTimes
from tests.unit.dags.parsing import HEAVY, parsed

GOOD = {"target": "churn", "action": "release", "version": 3, "reason": "the gate had too few rows"}


@pytest.fixture(scope="module")
def dag() -> dict[str, Any]:
    found: dict[str, Any] = parsed()["model_release"]
    return found


def test_parsing_imports_nothing_heavy() -> None:
    """No data or model library is loaded by parsing any of the DAGs: the processor does it every 30 seconds."""
    assert [name for name in HEAVY if name in parsed()["modules"]] == []


def test_only_a_person_starts_it(dag: dict[str, Any]) -> None:
    """No schedule: Airflow can neither schedule nor backfill it."""
    assert (dag["timetable"], dag["schedulable"], dag["catchup"]) == ("NullTimetable", False, False)


def test_form_says_what_it_asks(dag: dict[str, Any]) -> None:
    """Each field has title and description; texts and numbers have bounds, choices are listed."""
    params = dag["params"]
    assert list(params) == ["target", "action", "version", "reason"]
    assert all(schema["title"] and schema["description"] for schema in params.values())
    assert params["target"]["enum"] == ["churn", "rag", "staging"]
    assert params["action"]["enum"] == ["release", "roll back", "hold", "lift the hold"]
    assert {"minimum", "maximum"} <= set(params["version"])
    assert {"minLength", "maxLength"} <= set(params["reason"])


def fill(dag: dict[str, Any], values: dict[str, Any]) -> dict[str, Any]:
    """What a trigger makes of the form, as Airflow's server does it; from the DAG as it was serialized."""
    form = DagSerialization.from_dict(dag["serialized"]).params.deep_merge(values)
    found: dict[str, Any] = form.validate()
    return found


@pytest.mark.parametrize("change", [
    {}, {"version": None}, {"action": "roll back", "version": None}, {"action": "hold", "version": None},
    {"reason": "x" * 500}, {"target": "staging"},
])  # fmt: skip
def test_form_takes_what_makes_sense(dag: dict[str, Any], change: dict[str, Any]) -> None:
    """What a person fills in passes Airflow's own check."""
    assert fill(dag, GOOD | change) == GOOD | change


@pytest.mark.parametrize("change", [
    {"target": "production"}, {"target": ""}, {"action": "delete"}, {"version": 0}, {"version": -1}, {"version": "3"},
    {"version": "champion"}, {"version": 2**40}, {"version": 1.5}, {"reason": "because"}, {"reason": " " * 20},
    {"reason": "x" * 501}, {"reason": None},
])  # fmt: skip
def test_form_refuses_what_makes_none(dag: dict[str, Any], change: dict[str, Any]) -> None:
    """An unknown target, a version that is no number, a reason that is none: refused before a run exists."""
    with pytest.raises(ParamValidationError):
        fill(dag, GOOD | change)


@pytest.mark.parametrize("missing", ["target", "action", "reason"])
def test_nothing_is_guessed(dag: dict[str, Any], missing: str) -> None:
    """Without a target, an action or a reason there is no run."""
    with pytest.raises(ParamValidationError):
        fill(dag, {name: value for name, value in GOOD.items() if name != missing})


def test_flow(dag: dict[str, Any]) -> None:
    """One plan, five ways on; the release follows the plan or the approval, and no failure or rejection of it."""
    tasks = dag["tasks"]
    assert {name: task["after"] for name, task in tasks.items()} == {
        "plan": ["approve", "hold", "lift_hold", "release", "roll_back"], "approve": ["release"], "release": [],
        "roll_back": [], "hold": [], "lift_hold": [],
    }
    assert tasks["release"]["rule"] == "none_failed_min_one_success"
    assert {task["rule"] for name, task in tasks.items() if name != "release"} == {"all_success"}
    assert tasks["plan"]["follow"] == {
        "release": "release", "approve": "approve", "roll back": "roll_back", "hold": "hold", "lift": "lift_hold",
    }  # fmt: skip
    assert (tasks["release"]["approval_task_id"], tasks["release"]["fields"]["manual"]) == ("approve", True)
    assert tasks["lift_hold"]["fields"]["reason"] == ""
    assert "params.reason" in tasks["hold"]["fields"]["reason"]


def test_no_task_waits_for_ever(dag: dict[str, Any]) -> None:
    """Each task has a limit that leaves its own waits their time; a person has half a day; failures tell someone."""
    for name in ("release", "roll_back", "hold", "lift_hold"):
        task = dag["tasks"][name]
        waits = LockTimes().wait + 3 * task["rollout_timeout"] + (task["blessing_timeout"] or 0)
        assert task["limit"] >= waits + 600, name
    assert dag["tasks"]["plan"]["limit"] > 60
    assert dag["tasks"]["approve"]["response_timeout"] == "12:00:00"
    for name, task in dag["tasks"].items():
        assert (task["owner"], task["callback"]) == ("mlops-platform", ["AlertNotifier"]), name
        assert (task["retries"] > 0 and task["delay"] > 0) != (name == "approve"), name


@pytest.mark.parametrize(("name", "namespace", "conn_id"), [
    ("churn", "elsewhere", "redis_serving"), ("rag", "ml-rag", "redis_rag"),
    ("staging", "ml-staging", "redis_staging"),
])  # fmt: skip
def test_chosen_target_reaches_each_task(dag: dict[str, Any], name: str, namespace: str, conn_id: str) -> None:
    """The fields of the named target, rendered as text, make that very target in every task that works on one."""
    chosen = {task_id: task["chosen"] for task_id, task in dag["tasks"].items() if task["chosen"]}
    assert set(chosen) == {"plan", "release", "roll_back", "hold", "lift_hold"}
    for task_id, fields in chosen.items():
        target = ServingTarget.of(fields["target"][name])
        assert (target.namespace, target.allow_unavailable) == (namespace, name == "staging"), task_id
    assert {fields["redis_conn_id"][name] for task_id, fields in chosen.items() if "roll" in task_id} == {conn_id}
    assert chosen["release"]["redis_conn_id"][name] == conn_id
