from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import DAG
from airflow.sdk.bases.operator import BaseOperator
from airflow.sdk.exceptions import AirflowFailException, DownstreamTasksSkipped

from airflow_provider_ragops.exceptions import UnreachableError
from airflow_provider_ragops.hooks.mlflow import MlflowHook
from airflow_provider_ragops.operators.gate import QualityGateOperator
from airflow_provider_ragops.promotion.evaluation import Predictions
from tests.stores import register
from tests.unit.promotion.evaluations import measured, predictions

MODEL = "Churn"


class TaskInstance(SimpleNamespace):
    """The edge to Airflow: keeps XComs, holds the task."""

    map_index = -1

    def __init__(self) -> None:
        super().__init__(xcoms={}, task=None)

    def xcom_push(self, key: str, value: Any) -> None:
        self.xcoms[key] = json.loads(json.dumps(value, allow_nan=False))


def _trained(hook: MlflowHook, marked: bool = True) -> str:
    """A version as the training pod leaves it; without the marker, as a killed one does."""
    run_id = hook.start_run("churn", "train", {"ragops.completed": "a1"})
    hook.end_run(run_id)
    tags = {"ragops.split_id": "s1", "ragops.attempt": "a1"}
    return register(hook, MODEL, tags | ({"ragops.completed": "a1"} if marked else {}), run_id)


def _evaluated(hook: MlflowHook, candidate: str, champion: str | None, rows: Predictions, folder: Path) -> str:
    """An evaluation run as the evaluation pod leaves it."""
    run_id = hook.start_run("churn", "evaluate", {"ragops.kind": "evaluation", "ragops.completed": "e1"})
    metrics = {
        "candidate": measured(candidate, rows, rows.candidate),
        "champion": measured(champion, rows, rows.champion) if champion else None,
    }
    hook.log_json(run_id, "evaluation/metrics.json", metrics)
    import pandas as pd

    file = folder / "predictions.parquet"
    columns = {"user_id": rows.users, "label": rows.labels, "candidate": rows.candidate, "champion": rows.champion}
    pd.DataFrame(columns).to_parquet(file)
    hook.client().log_artifact(run_id, str(file), "evaluation")
    hook.end_run(run_id)
    return run_id


def _gate(candidate: str, champion: str | None, run_id: str, **changes: Any) -> QualityGateOperator:
    return QualityGateOperator(
        task_id="gate", model=MODEL, candidate=candidate, champion=champion, evaluation_run_id=run_id,
        follow_promote="release", follow_reject="alert", **changes,
    )  # fmt: skip


def _context(run_type: str = "manual") -> dict[str, Any]:
    return {"ti": TaskInstance(), "dag_run": SimpleNamespace(run_type=run_type)}


@pytest.fixture
def judged(mlflow_store: MlflowHook, tmp_path: Path) -> tuple[MlflowHook, str, str]:
    """Champion 1, candidate 2 that is as good, evaluated: hook, candidate, evaluation run."""
    champion, candidate = _trained(mlflow_store), _trained(mlflow_store)
    return mlflow_store, candidate, _evaluated(mlflow_store, candidate, champion, predictions(), tmp_path)


def test_promotion_tags_sets_challenger_and_tells(judged: tuple[MlflowHook, str, str], tmp_path: Path) -> None:
    """A passing candidate: branch, tags, alias, report in the evaluation run, verdict in XCom, link."""
    hook, candidate, run_id = judged
    context = _context()
    gate = _gate(candidate, "1", run_id, min_auc="0.7", min_rows="200", evaluate_only="False")

    assert gate.choose_branch(context) == "release"

    tags = hook.registry().version(MODEL, candidate).tags
    assert tags["ragops.gate.verdict"] == "promote"
    assert tags["ragops.gate.champion"] == "1"
    assert tags["ragops.gate.report"] == f"runs:/{run_id}/gate/report.json"
    assert hook.registry().alias(MODEL, "challenger") == candidate
    file = hook.download(run_id, "gate/report.json", tmp_path)
    assert file
    assert json.loads(file.read_text())["verdict"] == "promote"
    verdict = context["ti"].xcoms["verdict"]
    assert (verdict["verdict"], verdict["candidate"], verdict["champion"]) == ("promote", candidate, "1")
    assert verdict["metrics"]["rows"] == 900
    (link,) = gate.operator_extra_links
    assert link.get_link(gate, ti_key=None) == verdict["run_url"]  # type: ignore[arg-type]


def test_rejection_takes_the_alias_back(mlflow_store: MlflowHook, tmp_path: Path) -> None:
    """A worse candidate follows the alert; an alias that an earlier judgement gave it goes; the champion stays."""
    champion, candidate = _trained(mlflow_store), _trained(mlflow_store)
    registry = mlflow_store.registry()
    registry.set_alias(MODEL, "champion", champion)
    registry.set_alias(MODEL, "challenger", candidate)
    run_id = _evaluated(mlflow_store, candidate, champion, predictions(noise=3.0), tmp_path)

    assert _gate(candidate, champion, run_id).choose_branch(_context()) == "alert"

    assert registry.alias(MODEL, "challenger") is None
    assert registry.alias(MODEL, "champion") == champion
    assert registry.version(MODEL, candidate).tags["ragops.gate.verdict"] == "reject"


def test_rejection_leaves_another_challenger_alone(judged: tuple[MlflowHook, str, str]) -> None:
    """A rejected candidate does not take the alias from the one that waits for release."""
    hook, candidate, run_id = judged
    hook.registry().set_alias(MODEL, "challenger", "1")

    assert _gate(candidate, "1", run_id, min_auc="0.99").choose_branch(_context()) == "alert"
    assert hook.registry().alias(MODEL, "challenger") == "1"


def test_first_model_is_promoted_by_the_threshold(mlflow_store: MlflowHook, tmp_path: Path) -> None:
    """M10: the documented start of the loop, where no champion exists: tag 'none', branch release."""
    candidate = _trained(mlflow_store)
    run_id = _evaluated(mlflow_store, candidate, None, predictions(champion=False), tmp_path)

    assert _gate(candidate, "None", run_id).choose_branch(_context()) == "release"
    assert mlflow_store.registry().version(MODEL, candidate).tags["ragops.gate.champion"] == "none"


@pytest.mark.parametrize(
    ("run_type", "changes", "branch"),
    [
        ("backfill", {}, None),
        ("backfill", {"follow_stop": "summary"}, "summary"),
        ("scheduled", {"evaluate_only": "True"}, None),
        ("scheduled", {"evaluate_only": "True", "min_auc": 0.99}, None),
    ],
)
def test_a_run_that_stops_judges_but_sets_no_alias(
    judged: tuple[MlflowHook, str, str], run_type: str, changes: dict[str, Any], branch: str | None
) -> None:
    """A backfill and evaluate_only never lead to a release, whatever the verdict."""
    hook, candidate, run_id = judged

    assert _gate(candidate, "1", run_id, **changes).choose_branch(_context(run_type)) == branch

    assert hook.registry().alias(MODEL, "challenger") is None
    assert "ragops.gate.verdict" in hook.registry().version(MODEL, candidate).tags


def test_a_candidate_without_marker_is_rejected(mlflow_store: MlflowHook, tmp_path: Path) -> None:
    """K1: a version that a killed pod registered is refused, although its predictions look good."""
    champion, candidate = _trained(mlflow_store), _trained(mlflow_store, marked=False)
    run_id = _evaluated(mlflow_store, candidate, champion, predictions(), tmp_path)
    context = _context()

    assert _gate(candidate, champion, run_id).choose_branch(context) == "alert"
    assert context["ti"].xcoms["verdict"]["reasons"] == [
        f"Version {candidate} has no completion marker of a FINISHED training run."
    ]


def test_an_evaluation_without_files_is_no_evaluation(judged: tuple[MlflowHook, str, str]) -> None:
    """M4: a FINISHED run without predictions is not enough."""
    hook, candidate, _ = judged
    empty = hook.start_run("churn", "evaluate", {"ragops.completed": "e2"})
    hook.end_run(empty)
    context = _context()

    assert _gate(candidate, "1", empty).choose_branch(context) == "alert"
    assert context["ti"].xcoms["verdict"]["verdict"] == "not-enough-data"


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"min_auc": "high"}, "parameter 'min_auc'.*saw 'high'"),
        ({"non_inferiority_margin": "-1"}, "gate rule non_inferiority_margin"),
        ({"evaluate_only": "perhaps"}, "parameter 'evaluate_only'"),
        ({"candidate": "None"}, "parameter 'candidate'"),
        ({"candidate": "77"}, "version 77 of model 'Churn'"),
        ({"evaluation_run_id": "f" * 32}, "run 'ffff"),
    ],
)
def test_bad_parameters_fail_without_retry(
    judged: tuple[MlflowHook, str, str], changes: dict[str, Any], told: str
) -> None:
    """A parameter that can't work, or names nothing, is a permanent failure with its name; no tag is written."""
    hook, candidate, run_id = judged
    gate = _gate(candidate, "1", run_id)
    for name, value in changes.items():
        setattr(gate, name, value)

    with pytest.raises(AirflowFailException, match=told):
        gate.choose_branch(_context())
    assert "ragops.gate.verdict" not in hook.registry().version(MODEL, candidate).tags


def test_unreachable_mlflow_may_be_retried(monkeypatch: pytest.MonkeyPatch) -> None:
    """An outage is no verdict: the task fails in a way that Airflow retries, naming the address."""
    monkeypatch.setenv("AIRFLOW_CONN_MLFLOW_DEFAULT", "mlflow://127.0.0.1:9")

    with pytest.raises(UnreachableError, match=r"http://127.0.0.1:9"):
        _gate("2", "1", "run").choose_branch(_context())


def test_the_other_branch_is_skipped(judged: tuple[MlflowHook, str, str]) -> None:
    """Airflow's own branching takes the chosen task and skips the other; None skips both."""
    _, candidate, run_id = judged

    def skipped(**changes: Any) -> set[str]:
        with DAG("d", schedule=None):
            gate = _gate(candidate, "1", run_id, **changes)
            gate >> [BaseOperator(task_id="release"), BaseOperator(task_id="alert")]
        context = _context()
        context["ti"].task = gate
        with pytest.raises(DownstreamTasksSkipped) as raised:
            gate.do_branch(context, gate.choose_branch(context))  # type: ignore[arg-type]
        return {name for name, _ in raised.value.tasks}

    assert skipped() == {"alert"}
    assert skipped(min_auc=0.99) == {"release"}
    assert skipped(evaluate_only=True) == {"release", "alert"}


def test_judging_again_leaves_no_old_verdict_beside_a_new_champion(
    judged: tuple[MlflowHook, str, str], monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Killed between its tags, a second judgement does not read as a promotion against the second champion."""
    hook, candidate, run_id = judged
    _gate(candidate, "1", run_id).choose_branch(_context())  # type: ignore[arg-type]
    registry = hook.registry()
    before = registry.version(MODEL, candidate).tags["ragops.gate.verdict"]
    assert before == "promote"
    told: list[dict[str, str]] = []

    def die_at_second(self: Any, model: str, version: str, tags: dict[str, str]) -> None:
        told.append(dict(tags))
        if len(told) == 2:
            raise KeyboardInterrupt
        really(self, model, version, tags)

    kind = type(registry)
    really = kind.set_tags
    monkeypatch.setattr(kind, "set_tags", die_at_second)
    with pytest.raises(KeyboardInterrupt):
        _gate(candidate, "1", run_id).choose_branch(_context())  # type: ignore[arg-type]
    assert hook.registry().version(MODEL, candidate).tags["ragops.gate.verdict"] != "promote"
