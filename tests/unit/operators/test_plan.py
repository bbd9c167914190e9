"""The first task of ``model_release``: reads the world, refuses in readable words, chooses the branch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_ragops.contract import TAG_GATE_REPORT, TAG_GATE_VERDICT, TAG_QUARANTINED
from airflow_provider_ragops.hooks.mlflow import MlflowHook
from airflow_provider_ragops.operators.plan import XCOM_QUESTION, ReleasePlanOperator
from airflow_provider_ragops.release.plan import Step
from tests.unit.operators.edge import connect, create_context
from tests.unit.release.world import TARGET, World, make_world_with_candidate

FOLLOW = {step: f"task_{step.name.lower()}" for step in Step}


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    found = make_world_with_candidate()
    connect(found, monkeypatch)
    return found


def choose(action: str = "release", version: Any = "2", reason: str = "a good reason", context: Any = None) -> str:
    operator = ReleasePlanOperator(
        task_id="plan", target=TARGET, action=action, version=version, reason=reason, follow=FOLLOW,
    )
    return operator.choose_branch(context or create_context(person="ada"))


def test_template_fields() -> None:
    """Everything that the form asks for is rendered."""
    assert set(ReleasePlanOperator.template_fields) == {"target", "action", "version", "reason"}


def test_branches(world: World) -> None:
    """Each action leads to its task; only a version that the gate refused to one that asks first."""
    assert choose() == "task_release"
    assert choose("roll back", "") == "task_roll_back"
    assert choose("roll back", "None") == "task_roll_back"
    assert choose("hold", "") == "task_hold"
    assert choose("lift the hold", "") == "task_lift"
    world.registry.tags["2"][TAG_GATE_VERDICT] = "reject"
    assert choose() == choose("roll back", "2") == "task_approve"


def test_planning_changes_nothing(world: World) -> None:
    """It reads: neither lock nor record nor registry is written."""
    before = world.tier.writes[:], json.dumps(world.registry.tags)
    choose()
    choose("roll back", "")
    assert (world.tier.writes, json.dumps(world.registry.tags)) == before


@pytest.mark.parametrize(("given", "told"), [
    ({"version": ""}, "Fill in 'version'"), ({"version": "7"}, "version 7"), ({"version": "v2"}, "a number or nothing"),
    ({"version": "2.0"}, "a number or nothing"), ({"version": "1"}, "serves now"),
    ({"action": "delete"}, "one of release, roll back, hold, lift the hold"), ({"reason": " "}, "parameter 'reason'"),
    ({"action": "hold"}, "Leave 'version' empty"),
])  # fmt: skip
def test_refusals_are_final_and_readable(world: World, given: dict[str, str], told: str) -> None:
    """What can't work is refused at once and is not retried."""
    with pytest.raises(AirflowFailException, match=told):
        choose(**given)


def test_quarantined_version_is_refused(world: World) -> None:
    """Neither the form nor an approval releases what was taken back once."""
    world.registry.tags["2"][TAG_QUARANTINED] = "it answered nonsense"
    with pytest.raises(AirflowFailException, match="quarantined: it answered nonsense"):
        choose()


@pytest.mark.parametrize("run_type", ["scheduled", "backfill", "operator_triggered", "asset_triggered"])
def test_only_people_plan(world: World, run_type: str) -> None:
    """No schedule, backfill or other DAG can use the form's way past a hold."""
    with pytest.raises(AirflowFailException, match=f"expected a run that a person triggered; saw a {run_type} run"):
        choose(context=create_context(run_type=run_type))


def test_rollback_and_hold_need_no_mlflow(monkeypatch: pytest.MonkeyPatch) -> None:
    """While MLflow is down, a rollback and a hold can still be asked for."""
    monkeypatch.setenv("AIRFLOW_CONN_MLFLOW_DEFAULT", json.dumps({"conn_type": "mlflow", "host": "http://127.0.0.1:9"}))
    assert choose("roll back", "") == "task_roll_back"
    assert choose("hold", "") == "task_hold"


def test_question_is_left_for_the_approval(world: World) -> None:
    """The approval's body: the person, the reason, what serves now, what the gate said; JSON-safe text."""
    world.registry.tags["2"] |= {TAG_GATE_VERDICT: "not-enough-data", TAG_GATE_REPORT: "no address"}
    context = create_context(person="ada")
    choose(context=context)
    asked = context["ti"].xcoms[XCOM_QUESTION]
    for told in ("**ada** asks to release version **2**", "a good reason", "**version 1**", "**not-enough-data**"):
        assert told in asked
    assert "(report: no address)" in asked


def test_nothing_is_asked_where_the_gate_said_promote(world: World) -> None:
    """No question lies about that somebody might answer by mistake."""
    context = create_context()
    choose(context=context)
    assert XCOM_QUESTION not in context["ti"].xcoms


def test_question_without_the_version_that_serves(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """M6: the served version was deleted from MLflow, which may be why a person releases another: still asked."""
    world.registry.tags["2"][TAG_GATE_VERDICT] = "reject"
    del world.registry.tags["1"]
    context = create_context()
    assert choose(context=context) == "task_approve"
    assert "| partition | 2026-02-01 | unknown |" in context["ti"].xcoms[XCOM_QUESTION]


def test_reports_reasons_are_read_from_mlflow(
    mlflow_store: MlflowHook, world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The gate's reasons and numbers come from its report's artifact; one that can't be read leaves its address."""
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    run_id = mlflow_store.start_run("churn", "evaluate", {})
    mlflow_store.log_json(run_id, "gate/report.json", {"reasons": ["too few rows"], "numbers": {"rows": 12}})
    operator = ReleasePlanOperator(task_id="p", target=TARGET, action="release", reason="r", follow=FOLLOW)
    report, url = operator._report(f"runs:/{run_id}/gate/report.json")
    assert (report["reasons"], report["numbers"]) == (["too few rows"], {"rows": 12})
    assert url
    assert operator._report(f"runs:/{run_id}/gate/lost.json")[0] == {}
    assert operator._report("runs:/0123/gate/report.json") == ({}, "runs:/0123/gate/report.json")
    assert operator._report("") == ({}, "")
