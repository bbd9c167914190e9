"""The form for people through Airflow's REST API: rollback, hold, approval, refusal."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ragops.contract import TAG_QUARANTINED
from tests.system.conftest import DRILL
from tests.system.drill import Drill, eventually

pytestmark = [pytest.mark.cluster, pytest.mark.images, pytest.mark.timeout(300)]
DAG = "model_release"


def ask(drill: Drill, action: str, reason: str = "because of a drill", version: str = "") -> str:
    form = {"target": "drill", "action": action, "reason": reason, "version": int(version) if version else None}
    return drill.trigger(DAG, form)


def done(drill: Drill, run_id: str) -> tuple[str, dict[str, str]]:
    """The run's state, and the tasks that were not skipped."""
    state = drill.ended(DAG, run_id)
    tasks = drill.loop.api.tasks(DAG, run_id)
    return state, {task: each for task, each in tasks.items() if each != "skipped"}


def released(drill: Drill) -> str:
    """Another version than before, released by a DAG."""
    version = drill.register()
    assert drill.ended("drill_other", drill.release(version)) == "success"
    return version


def test_rollback_holds_the_target_until_the_hold_is_lifted(drill: Drill) -> None:
    """R3: without a version it goes to the last good one and names the person; the hold refuses automatic releases."""
    good, bad = drill.champion(), released(drill)
    run_id = ask(drill, "roll back", "users complain")
    assert done(drill, run_id) == ("success", {"plan": "success", "roll_back": "success"})
    drill.assert_serves(good)
    assert drill.registry.version(DRILL.model, bad).tags[TAG_QUARANTINED] == "users complain"
    entry = drill.ledger.history(DRILL.slug)[0]
    assert (entry.kind, entry.to_version, entry.outcome) == ("rollback", good, "released")
    assert entry.reason == "users complain"
    assert entry.actor.startswith("admin in model_release/")
    version = drill.register()
    held = drill.release(version)
    assert drill.ended("drill_other", held) == "failed"
    assert "on hold: users complain" in drill.log("drill_other", held)
    assert done(drill, ask(drill, "lift the hold")) == ("success", {"plan": "success", "lift_hold": "success"})
    assert drill.ended("drill_other", drill.release(version)) == "success"
    drill.assert_serves(version)


def test_version_that_the_gate_refused_needs_an_approval(drill: Drill) -> None:
    """A rejected version waits for a person, whose answer is in the ledger; a rejection by the person ends the run."""
    before = drill.champion()
    version = drill.register(verdict="reject")
    rejected, approved = (ask(drill, "release", version=version) for _ in range(2))
    assert answer(drill, rejected, "Reject")["subject"] == f"release version {version} at drill?"
    assert done(drill, rejected) == ("success", {"plan": "success", "approve": "success"})
    assert drill.champion() == before
    question = answer(drill, approved, "Approve")
    for told in ("**admin** asks to release version", f"Serving now: **version {before}**", "The gate said **reject**"):
        assert told in question["body"]
    assert done(drill, approved) == ("success", {"plan": "success", "approve": "success", "release": "success"})
    drill.assert_serves(version)
    entry = drill.ledger.history(DRILL.slug)[0]
    assert (entry.to_version, entry.gate_report) == (version, "")
    assert entry.approval.startswith("approved by admin at ")
    assert f"({DAG}/{approved}/approve)" in entry.approval


def answer(drill: Drill, run_id: str, option: str) -> dict[str, Any]:
    """Answer as the page *Required Actions* does, as soon as the question is there; returns the question."""
    path = f"/dags/{DAG}/dagRuns/{run_id}/taskInstances/approve"
    eventually(lambda: drill.state(DAG, run_id, "approve") == "awaiting_input", "the question", 90)
    # Airflow fails a task that is answered before the process that asked has ended and the scheduler has heard of it.
    eventually(lambda: not Path(f"/proc/{drill.task(DAG, run_id, 'approve')['pid']}").exists(), "its end", 30)
    time.sleep(5)
    found: dict[str, Any] = drill.call("GET", f"{path}/-1/hitlDetails")
    drill.call("PATCH", f"{path}/-1/hitlDetails", {"chosen_options": [option], "params_input": {}})
    return found


@pytest.mark.parametrize(("version", "told"), [
    ("quarantined", "it is quarantined: it crashed"), ("", "Fill in 'version'"),
])  # fmt: skip
def test_what_can_not_be_released_is_refused_at_once(drill: Drill, version: str, told: str) -> None:
    """A quarantined version, or none at all, fails the first task, without retry, in words for the person."""
    before = drill.record
    if version:
        version = drill.register(**{TAG_QUARANTINED: "it crashed"})
    run_id = ask(drill, "release", version=version)
    state, tasks = done(drill, run_id)
    assert (state, tasks["plan"]) == ("failed", "failed")
    assert drill.task(DAG, run_id, "plan")["try_number"] == 1
    assert told in drill.log(DAG, run_id, "plan")
    assert drill.record == before
