from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import mlflow
import pandas as pd
import pytest

from airflow_provider_ragops import contract
from airflow_provider_ragops.exceptions import DataError, RegistryError
from airflow_provider_ragops.hooks.mlflow import MlflowHook
from airflow_provider_ragops.workloads import metrics
from airflow_provider_ragops.workloads.evaluation.arguments import EvaluationArguments
from airflow_provider_ragops.workloads.evaluation.procedure import evaluate
from airflow_provider_ragops.workloads.training.procedure import train
from tests.unit.workloads.training_sets import MODEL, arguments, environment, log_training_set, rows

Data = tuple[str, str]


def evaluated(
    store: MlflowHook, data: Data, candidate: str, champion: str | None, folder: Path
) -> tuple[str, dict[str, Any], pd.DataFrame]:
    given = EvaluationArguments(MODEL, candidate, champion, *data, "2026-11-29")
    run_id = evaluate(given, environment(store, "evaluation-1"))
    files = Path(mlflow.artifacts.download_artifacts(f"runs:/{run_id}/evaluation", dst_path=str(folder)))
    return run_id, json.loads((files / "metrics.json").read_text()), pd.read_parquet(files / "predictions.parquet")


def test_both_versions_score_the_same_rows(store: MlflowHook, data: Data, tmp_path: Path) -> None:
    """One row per held-out observation with both probabilities; the metrics are those of the rows."""
    train(arguments(data, epochs=1), environment(store, "a1"))
    train(arguments(data, epochs=5), environment(store, "a2"))
    run_id, found, predictions = evaluated(store, data, "2", "1", tmp_path)

    run = store.run(run_id)
    assert run.info.status == "FINISHED"
    assert {
        contract.TAG_KIND: "evaluation", contract.TAG_ATTEMPT: "evaluation-1", contract.TAG_COMPLETED: "evaluation-1",
        contract.TAG_CANDIDATE: "2", contract.TAG_GATE_CHAMPION: "1",
    }.items() <= run.data.tags.items()  # fmt: skip
    assert run.info.experiment_id == store.client().get_experiment_by_name("churn").experiment_id

    frame = rows(nan_share=0.05)
    held_out = frame[frame["split"] == "held_out"]
    assert list(predictions.columns) == ["user_id", "event_timestamp", "label", "candidate", "champion"]
    assert list(predictions["user_id"]) == list(held_out["user_id"])
    for side, version in (("candidate", "2"), ("champion", "1")):
        measured = metrics.summary(predictions["label"], predictions[side])
        expected = {"version": version, "split_id": contract.split_id(MODEL), "rows": len(held_out), "error": None}
        assert found[side] == expected | measured
        assert measured.items() <= store.registry().metrics(MODEL, version).items()
    assert (found["data_digest"], found["partition"]) == (data[1], "2026-11-29")


def test_first_candidate_has_no_champion(store: MlflowHook, data: Data, tmp_path: Path) -> None:
    """No champion: null in the metrics, NaN in the predictions, the word none in the tag."""
    train(arguments(data), environment(store, "a1"))
    run_id, found, predictions = evaluated(store, data, "1", None, tmp_path)
    assert found["champion"] is None
    assert predictions["champion"].isna().all()
    assert store.run(run_id).data.tags[contract.TAG_GATE_CHAMPION] == contract.NO_VERSION


def test_champion_of_other_features_is_reported(store: MlflowHook, data: Data, tmp_path: Path) -> None:
    """A champion that wants features which are gone: null metrics with the reason; the gate decides."""
    train(arguments(data), environment(store, "a1"))
    fewer = log_training_set(store, rows().drop(columns="amount"), tmp_path)
    train(arguments(fewer), environment(store, "a2"))
    _, found, predictions = evaluated(store, fewer, "2", "1", tmp_path)
    assert found["candidate"]["auc"] > 0.5
    assert (found["champion"]["rows"], found["champion"]["auc"]) == (0, None)
    assert "amount" in found["champion"]["error"]
    assert predictions["champion"].isna().all()


def test_candidate_that_cannot_score_is_an_error(store: MlflowHook, data: Data, tmp_path: Path) -> None:
    """The candidate itself must score the rows: otherwise the run is FAILED and carries no marker."""
    train(arguments(data), environment(store, "a1"))
    fewer = log_training_set(store, rows().drop(columns="amount"), tmp_path)
    with pytest.raises(DataError, match=f"predictions of {MODEL} version 1"):
        evaluated(store, fewer, "1", None, tmp_path)
    run = store.find_run("churn", {contract.TAG_KIND: "evaluation"})
    assert run.info.status == "FAILED"
    assert contract.TAG_COMPLETED not in run.data.tags


def test_missing_candidate_is_named(store: MlflowHook, data: Data, tmp_path: Path) -> None:
    """A version that does not exist is named."""
    with pytest.raises(RegistryError, match=f"{MODEL} version 9: expected a registered version"):
        evaluated(store, data, "9", None, tmp_path)
