from __future__ import annotations

import json
import shutil
from collections.abc import Callable
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
from airflow_provider_ragops.workloads.evaluation.slices import parse
from airflow_provider_ragops.workloads.training.procedure import train
from tests.unit.workloads.training_sets import MODEL, arguments, environment, log_training_set, rows

Data = tuple[str, str]


def evaluated(
    store: MlflowHook, data: Data, candidate: str, champion: str | None, folder: Path, slices: str = ""
) -> tuple[str, dict[str, Any], pd.DataFrame]:
    given = EvaluationArguments(MODEL, candidate, champion, *data, "2026-11-29", parse(slices))
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
        expected = {
            "version": version, "run_id": store.registry().version(MODEL, version).run_id,
            "split_id": contract.split_id(MODEL), "rows": len(held_out), "error": None,
        }  # fmt: skip
        assert found[side] == expected | measured
        assert measured.items() <= store.registry().metrics(MODEL, version).items()
    assert (found["data_digest"], found["partition"]) == (data[1], "2026-11-29")


def test_each_row_says_its_slices(store: MlflowHook, data: Data, tmp_path: Path) -> None:
    """The predictions carry a column per slice, from the held-out rows' own features; the metrics name the slices."""
    train(arguments(data), environment(store, "a1"))
    _, found, predictions = evaluated(store, data, "1", None, tmp_path, "amount:3")

    assert found["slices"] == ["amount:3"]
    held_out = rows(nan_share=0.05).query("split == 'held_out'")
    groups = predictions["slice:amount:3"].to_numpy()
    assert set(groups[held_out["amount"].isna()]) == {"missing"}
    means = held_out.groupby(groups)["amount"].mean()
    assert [name.partition(":")[0] for name in means.sort_values().index] == ["1 of 3", "2 of 3", "3 of 3", "missing"]


def test_an_unknown_slice_costs_no_scoring(store: MlflowHook, data: Data, tmp_path: Path) -> None:
    """A slice of no feature fails the run before any model is loaded."""
    train(arguments(data), environment(store, "a1"))
    with pytest.raises(DataError, match="slice 'country': expected one of the features recency, amount, count"):
        evaluated(store, data, "1", None, tmp_path, "country")


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


@pytest.fixture
def files(store: MlflowHook, data: Data) -> Path:
    """Where the files of version 1 lie; version 2 is as good."""
    for attempt in ("a1", "a2"):
        train(arguments(data, epochs=1 if attempt == "a1" else 2), environment(store, attempt))
    return Path(store.client().get_model_version_download_uri(MODEL, "1").removeprefix("file://"))


def _missing(files: Path) -> None:
    shutil.rmtree(files)


def _truncated(files: Path) -> None:
    weights = max((each for each in files.rglob("*") if each.is_file()), key=lambda each: each.stat().st_size)
    weights.write_bytes(weights.read_bytes()[:-7])


def _unmarked(files: Path) -> None:
    (files / "MLmodel").unlink()


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (_missing, "expected the files of a model; saw"),
        (_truncated, "expected files with digest"),
        (_unmarked, "expected the files of a model; saw no file MLmodel"),
    ],
)
def test_a_ready_version_without_whole_files_fails(
    store: MlflowHook, data: Data, files: Path, tmp_path: Path, damage: Callable[[Path], None], told: str
) -> None:
    """M4: READY proves nothing: missing, truncated or incomplete files fail the evaluation for good, unloaded."""
    damage(files)
    assert store.client().get_model_version(MODEL, "1").status == "READY"

    with pytest.raises((DataError, RegistryError), match=f"{MODEL} version 1: {told}") as raised:
        evaluated(store, data, "1", None, tmp_path)
    assert raised.value.permanent
    assert store.find_run("churn", {contract.TAG_KIND: "evaluation"}).info.status == "FAILED"


def test_a_champion_without_whole_files_is_reported(
    store: MlflowHook, data: Data, files: Path, tmp_path: Path
) -> None:
    """M4: the champion's files are damaged: the candidate is scored, the reason reaches the gate, which decides."""
    _truncated(files)

    _, found, predictions = evaluated(store, data, "2", "1", tmp_path)

    assert found["champion"]["auc"] is None
    assert "expected files with digest" in found["champion"]["error"]
    assert found["champion"]["run_id"] == store.registry().version(MODEL, "1").run_id
    assert predictions["champion"].isna().all()


def test_files_that_cannot_be_loaded_are_named(
    store: MlflowHook, data: Data, files: Path, tmp_path: Path
) -> None:
    """M4: a version that carries no digest and whose files are no model: refused with what the library said."""
    store.client().delete_model_version_tag(MODEL, "1", contract.TAG_MODEL_DIGEST)
    (files / "MLmodel").write_text("flavors: {}")

    with pytest.raises(DataError, match=f"{MODEL} version 1: expected files that can be loaded"):
        evaluated(store, data, "1", None, tmp_path)


def test_the_identity_is_read_before_the_files(
    store: MlflowHook, data: Data, files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """M7: a model made anew while its files are loaded: the metrics name the run that was there before."""
    client, before = store.client(), store.registry().version(MODEL, "1").run_id
    client.delete_model_version_tag(MODEL, "1", contract.TAG_MODEL_DIGEST)  # or the other files are refused at once
    source = client.get_model_version_download_uri(MODEL, "2")
    download = mlflow.artifacts.download_artifacts

    def made_anew(artifact_uri: str, *, dst_path: str) -> str:
        if artifact_uri.startswith("models:/"):
            other = client.get_model_version(MODEL, "2").run_id
            client.delete_registered_model(MODEL)
            client.create_registered_model(MODEL)
            assert str(client.create_model_version(MODEL, source, other).version) == "1"
        return str(download(artifact_uri, dst_path=dst_path))

    monkeypatch.setattr(mlflow.artifacts, "download_artifacts", made_anew)
    _, found, _ = evaluated(store, data, "1", None, tmp_path)

    assert found["candidate"]["run_id"] == before != store.registry().version(MODEL, "1").run_id


def test_missing_candidate_is_named(store: MlflowHook, data: Data, tmp_path: Path) -> None:
    """A version that does not exist is named."""
    with pytest.raises(RegistryError, match=f"{MODEL} version 9: expected a registered version"):
        evaluated(store, data, "9", None, tmp_path)
