from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from airflow.sdk import DAG
from airflow.sdk.bases.operator import BaseOperator
from airflow.sdk.exceptions import AirflowFailException, DownstreamTasksSkipped

from airflow_provider_ragops.contract import ServingTarget
from airflow_provider_ragops.exceptions import ConfigurationError, ReleaseRefusedError, UnreachableError
from airflow_provider_ragops.hooks.mlflow import MlflowHook
from airflow_provider_ragops.operators.gate import QualityGateOperator
from airflow_provider_ragops.promotion.evaluation import Predictions
from airflow_provider_ragops.promotion.ledger import LedgerEntry
from airflow_provider_ragops.release.checks import require_releasable
from airflow_provider_ragops.release.record import ReleaseRecord
from airflow_provider_ragops.release.request import ReleaseRequest
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


def _trained(hook: MlflowHook, marked: bool = True, **more: str) -> str:
    """A version as the training pod leaves it; without the marker, as a killed one does."""
    run_id = hook.start_run("churn", "train", {"ragops.completed": "a1"})
    hook.end_run(run_id)
    tags = {"ragops.split_id": "s1", "ragops.attempt": "a1", **{f"ragops.{name}": each for name, each in more.items()}}
    return register(hook, MODEL, tags | ({"ragops.completed": "a1"} if marked else {}), run_id)


def _evaluated(hook: MlflowHook, candidate: str, champion: str | None, rows: Predictions, folder: Path) -> str:
    """An evaluation run as the evaluation pod leaves it."""
    run_id = hook.start_run("churn", "evaluate", {"ragops.kind": "evaluation", "ragops.completed": "e1"})

    def part(version: str, scores: Any) -> dict[str, Any]:
        return measured(version, rows, scores, hook.registry().version(MODEL, version).run_id)

    metrics = {
        "candidate": part(candidate, rows.candidate),
        "champion": part(champion, rows.champion) if champion else None,
    }
    hook.log_json(run_id, "evaluation/metrics.json", metrics)
    import pandas as pd

    file = folder / "predictions.parquet"
    columns = {
        "user_id": rows.users, "label": rows.labels, "candidate": rows.candidate, "champion": rows.champion,
        **{f"slice:{name}": groups for name, groups in rows.slices.items()},
    }  # fmt: skip
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
    assert tags["ragops.gate.champion_run"] == hook.registry().version(MODEL, "1").run_id
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


def test_harm_in_a_slice_follows_the_alert(
    mlflow_store: MlflowHook, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Slices of the evaluation reach the report, the log and the reasons; the XCom stays small."""
    champion, candidate = _trained(mlflow_store), _trained(mlflow_store)
    rows = predictions(users=1200)
    new = rows.users < 300
    scores = np.where(new, np.random.default_rng(1).permutation(rows.candidate), rows.candidate)
    rows = replace(rows, candidate=scores, slices={
        "tenure": np.where(new, "new", "old"), **{f"s{number}": rows.users % 20 for number in range(10)},
    })
    run_id = _evaluated(mlflow_store, candidate, champion, rows, tmp_path)
    context = _context()
    gate = _gate(candidate, champion, run_id, non_inferiority_margin="0.2", max_slice_loss="0.1", min_slice_rows="50",
                 samples="100")

    log: list[str] = []
    monkeypatch.setattr(
        QualityGateOperator, "log", SimpleNamespace(info=lambda text, *values: log.append(text % values))
    )

    assert gate.choose_branch(context) == "alert"

    file = mlflow_store.download(run_id, "gate/report.json", tmp_path)
    assert file
    report = json.loads(file.read_text())
    assert len(report["slices"]) == 202
    assert [each["group"] for each in report["slices"] if each["slice"] == "tenure"] == ["new", "old"]
    told = context["ti"].xcoms["verdict"]
    assert "slice tenure, group 'new' (900 rows)" in " ".join(told["reasons"])
    assert len(json.dumps(told)) < 2000
    assert any(line.startswith("tenure ") and line.endswith("lost") for line in log[0].splitlines())


def test_many_objecting_slices_are_not_all_told(mlflow_store: MlflowHook, tmp_path: Path) -> None:
    """However many slices object, the XCom and the alert name ten; the report has them all."""
    champion, candidate = _trained(mlflow_store), _trained(mlflow_store)
    rows = predictions(noise=3.0)
    rows = replace(rows, slices={f"s{number}": rows.users % 2 for number in range(12)})
    run_id = _evaluated(mlflow_store, candidate, champion, rows, tmp_path)
    context = _context()

    _gate(candidate, champion, run_id, samples=100).choose_branch(context)

    told = context["ti"].xcoms["verdict"]["reasons"]
    assert len(told) == 11
    assert told[-1] == "and 16 more, in the report"
    file = mlflow_store.download(run_id, "gate/report.json", tmp_path)
    assert file
    assert len(json.loads(file.read_text())["reasons"]) == 26


@pytest.mark.parametrize(
    ("waiting", "kept"), [("2026-11-30", True), ("2026-11-29", False), ("2026-11-28", False), ("", False)]
)
def test_an_older_run_does_not_push_the_waiting_candidate_aside(
    mlflow_store: MlflowHook, tmp_path: Path, waiting: str, kept: bool
) -> None:
    """M9: a run that finishes late is ordered by its partition, not by its end: the newer one stays challenger."""
    champion, candidate = _trained(mlflow_store), _trained(mlflow_store, partition="2026-11-29")
    newer = _trained(mlflow_store, **({"partition": waiting} if waiting else {}))
    mlflow_store.registry().set_alias(MODEL, "challenger", newer)
    run_id = _evaluated(mlflow_store, candidate, champion, predictions(), tmp_path)

    assert _gate(candidate, champion, run_id).choose_branch(_context()) == "release"

    assert mlflow_store.registry().alias(MODEL, "challenger") == (newer if kept else candidate)
    assert mlflow_store.registry().version(MODEL, candidate).tags["ragops.gate.verdict"] == "promote"


def test_a_deleted_champion_is_no_first_model(mlflow_store: MlflowHook, tmp_path: Path) -> None:
    """M6: the champion's version was deleted, and its alias with it: the ledger knows that it serves."""
    champion, candidate = _trained(mlflow_store), _trained(mlflow_store)
    registry, ledger = mlflow_store.registry(), mlflow_store.ledger()
    registry.set_alias(MODEL, "champion", champion)
    ledger.open(_entry(champion))
    ledger.close("r1", "released", "verified")
    mlflow_store.client().delete_model_version(MODEL, champion)
    assert registry.alias(MODEL, "champion") is None
    run_id = _evaluated(mlflow_store, candidate, None, predictions(champion=False), tmp_path)
    context = _context()

    gate = _gate(candidate, "none", run_id, target=ServingTarget("ml-serving", MODEL))
    assert gate.choose_branch(context) == "alert"

    told = context["ti"].xcoms["verdict"]
    assert told["verdict"] == "not-enough-data"
    assert f"The champion has no version: its alias names none, but version {champion} was" in told["reasons"][0]
    other = _gate(candidate, "none", run_id, target=ServingTarget("staging", MODEL))
    assert other.choose_branch(_context()) == "release", "nothing was ever released to the other target"


def test_a_rollback_to_no_version_makes_the_next_model_a_first_one(mlflow_store: MlflowHook, tmp_path: Path) -> None:
    """M10: after a rollback to nothing no champion is missing: the threshold alone decides again."""
    candidate = _trained(mlflow_store)
    ledger = mlflow_store.ledger()
    ledger.open(replace(_entry("1"), to_version="", from_version="1", kind="rollback"))
    ledger.close("r1", "released", "verified")
    run_id = _evaluated(mlflow_store, candidate, None, predictions(champion=False), tmp_path)

    gate = _gate(candidate, "none", run_id, target=ServingTarget("ml-serving", MODEL).as_dict())
    assert gate.choose_branch(_context()) == "release"


def _entry(version: str) -> LedgerEntry:
    now = datetime.now(timezone.utc)
    return LedgerEntry("r1", "ml-serving/mlflow-serve", MODEL, None, version, 1, "airflow", "", "runs:/x", now)


def test_a_model_that_was_made_anew_is_not_judged_by_old_numbers(mlflow_store: MlflowHook, tmp_path: Path) -> None:
    """M7: the registered model was deleted and counts from 1 again: an evaluation of the old versions is not theirs."""
    client = mlflow_store.client()
    champion, candidate = _trained(mlflow_store), _trained(mlflow_store)
    run_id = _evaluated(mlflow_store, candidate, champion, predictions(), tmp_path)
    client.delete_registered_model(MODEL)
    assert (_trained(mlflow_store), _trained(mlflow_store)) == (champion, candidate)
    context = _context()

    assert _gate(candidate, champion, run_id).choose_branch(context) == "alert"

    told = context["ti"].xcoms["verdict"]
    assert told["verdict"] == "reject"
    assert "the registered model was deleted and made anew" in told["reasons"][0]
    assert mlflow_store.registry().alias(MODEL, "challenger") is None


def test_a_champion_moved_during_the_judgement_is_refused_at_release(
    judged: tuple[MlflowHook, str, str],
) -> None:
    """M2: the gate judged against 1, another version serves by now: the release is refused, nothing was written."""
    hook, candidate, run_id = judged
    newer = _trained(hook)
    hook.registry().set_alias(MODEL, "champion", newer)
    hook.registry().set_tags(MODEL, candidate, {"ragops.partition": "2026-11-29"})

    assert _gate(candidate, "1", run_id).choose_branch(_context()) == "release"

    version = hook.registry().version(MODEL, candidate)
    request = ReleaseRequest(candidate, "r1", "airflow", "")
    require_releasable(version, ReleaseRecord(MODEL, to_version="1"), request)
    told = f"judged it against version 1, but {newer} is serving now: evaluate again"
    with pytest.raises(ReleaseRefusedError, match=told):
        require_releasable(version, ReleaseRecord(MODEL, to_version=newer), request)
    assert hook.registry().alias(MODEL, "champion") == newer


@pytest.mark.parametrize("alias", ["latest", "v3", "V12", ""])
def test_reserved_aliases_are_refused_when_the_file_is_parsed(alias: str) -> None:
    """M11: MLflow would answer for 'latest' with whatever is newest: refused by the constructor; templates pass."""
    with pytest.raises(ConfigurationError, match=f"task gate: expected an alias that MLflow does not.*saw '{alias}'"):
        _gate("2", "1", "run", challenger=alias)
    assert _gate("2", "1", "run", challenger="{{ params.alias }}").challenger == "{{ params.alias }}"


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"max_slice_loss": "2"}, "gate rule max_slice_loss"),
        ({"min_slice_rows": "many"}, "parameter 'min_slice_rows'.*saw 'many'"),
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
