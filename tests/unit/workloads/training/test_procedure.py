from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import mlflow
import numpy as np
import pandas as pd
import pytest

from airflow_provider_ragops import contract
from airflow_provider_ragops.exceptions import DataError
from airflow_provider_ragops.hooks.mlflow import MlflowHook
from airflow_provider_ragops.workloads.training import procedure
from airflow_provider_ragops.workloads.training.registration import Registered
from tests.unit.workloads.training_sets import FEATURES, MODEL, arguments, environment, rows

Data = tuple[str, str]


def train(store: MlflowHook, data: Data, attempt: str = "attempt-1", image: str = "training:1") -> Registered:
    return procedure.train(arguments(data), environment(store, attempt, image))


def runs(store: MlflowHook) -> list[Any]:
    experiment = store.client().get_experiment_by_name("churn")
    return [
        run for run in store.client().search_runs([experiment.experiment_id])
        if run.data.tags.get(contract.TAG_KIND) == "training"
    ]  # fmt: skip


def test_training_leaves_a_complete_version(store: MlflowHook, data: Data) -> None:
    """The run is FINISHED with its marker; the version carries the whole lineage and the same marker."""
    done = train(store, data)
    run, version = store.run(done.run_id), store.registry().version(MODEL, done.version)

    assert (done.version, done.attempt, run.info.status) == ("1", "attempt-1", "FINISHED")
    lineage = {
        contract.TAG_PARTITION: "2026-11-29", contract.TAG_DATA_DIGEST: data[1], contract.TAG_IMAGE: "training:1",
        contract.TAG_SPLIT_ID: contract.split_id(MODEL), contract.TAG_CUTOFF: "2026-08-31T00:00:00+00:00",
        contract.TAG_GIT_COMMIT: "c0ffee", contract.TAG_ATTEMPT: "attempt-1", contract.TAG_COMPLETED: "attempt-1",
    }  # fmt: skip
    assert lineage.items() <= version.tags.items()
    assert lineage.items() <= run.data.tags.items()
    assert {contract.TAG_REGISTRATION_KEY, contract.TAG_PARAMS_DIGEST} <= version.tags.keys() & run.data.tags.keys()
    assert {"epochs": "3", "batch_size": "64", "learning_rate": "0.01", "seed": "7"}.items() <= run.data.params.items()
    assert run.inputs.dataset_inputs[0].dataset.digest == data[1]
    assert {"auc", "log_loss", "brier", "train_loss", "val_auc"} <= run.data.metrics.keys()
    assert [point.step for point in store.client().get_metric_history(done.run_id, "train_loss")] == [1, 2, 3]


def test_same_work_gives_the_same_metrics_to_the_last_digit(store: MlflowHook, data: Data) -> None:
    """Trained again (another image, so nothing is reused): every metric is equal, not just close."""
    first, second = train(store, data), train(store, data, "attempt-2", image="training:2")
    assert (first.version, second.version) == ("1", "2")
    assert store.registry().metrics(MODEL, "1") == store.registry().metrics(MODEL, "2")


def test_completed_version_is_reused(store: MlflowHook, data: Data) -> None:
    """K2, M1: the same work again finds the completed version: no second run, no second version."""
    first = train(store, data)
    assert train(store, data, "attempt-2") == first
    assert len(runs(store)) == len(store.registry().find(MODEL, {})) == 1


def test_leftover_of_a_dead_attempt_is_not_reused(store: MlflowHook, data: Data) -> None:
    """M4: a version whose attempt died before its marker does not count; a new one is made beside it."""
    dead = train(store, data)
    store.client().delete_model_version_tag(MODEL, dead.version, contract.TAG_COMPLETED)
    done = train(store, data, "attempt-2")
    assert (done.version, done.attempt) == ("2", "attempt-2")
    assert train(store, data, "attempt-3") == done


@pytest.mark.parametrize("step", ["log_input", "fit", "log_model", "register", "complete"])
def test_crash_leaves_a_failed_run_and_no_marker(
    store: MlflowHook, data: Data, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """K1: a crash at any step marks the run FAILED, and no version counts as complete."""
    from airflow_provider_ragops.workloads.training import fit, logged_model, registration

    def crash(*_: Any, **__: Any) -> None:
        raise RuntimeError("the disk is full")

    owner = {"fit": fit, "log_model": logged_model, "register": registration, "complete": registration}
    monkeypatch.setattr(owner.get(step, procedure), step, crash)
    with pytest.raises(RuntimeError, match="disk is full"):
        train(store, data)
    monkeypatch.undo()

    assert [run.info.status for run in runs(store)] == ["FAILED"]
    assert train(store, data, "attempt-2").attempt == "attempt-2"


def test_replaced_data_is_refused(store: MlflowHook, data: Data) -> None:
    """A digest that is not the file's: the run is FAILED and nothing is registered."""
    with pytest.raises(DataError, match="digest"):
        train(store, (data[0], "0123456789abcdef"))
    assert [run.info.status for run in runs(store)] == ["FAILED"]
    assert store.registry().find(MODEL, {}) == []


def test_served_model_takes_raw_rows(store: MlflowHook, data: Data) -> None:
    """Loaded as the serving tier does: a probability per row, NaN included, equal to what training measured."""
    done = train(store, data)
    model = mlflow.pyfunc.load_model(f"models:/{MODEL}/{done.version}")
    frame = rows(nan_share=0.05)
    held_out = frame[frame["split"] == "held_out"]
    assert held_out[list(FEATURES)].isna().any(axis=None)

    answer = model.predict(held_out[list(reversed(FEATURES))])
    assert list(answer.columns) == ["probability"]
    assert answer["probability"].between(0, 1).all()
    brier = float(np.mean((answer["probability"].to_numpy() - held_out["churned"].to_numpy()) ** 2))
    assert brier == store.registry().metrics(MODEL, done.version)["brier"]


def test_signature_and_example_describe_the_rows(store: MlflowHook, data: Data) -> None:
    """Columns have names and are doubles; the example's JSON can be sent to /invocations as it is."""
    done = train(store, data)
    model = mlflow.pyfunc.load_model(f"models:/{MODEL}/{done.version}")
    assert [(column.name, column.type.name) for column in model.metadata.signature.inputs] == [
        (name, "double") for name in FEATURES
    ]
    example = store.registry().input_example(MODEL, done.version)
    frame = pd.DataFrame(**example["dataframe_split"])
    assert list(frame.columns) == list(FEATURES)
    assert not math.isnan(model.predict(frame)["probability"].iloc[0])
    with pytest.raises(mlflow.MlflowException, match="missing inputs"):
        model.predict(frame.drop(columns="amount"))


def test_artifact_is_named_by_its_digest(store: MlflowHook, data: Data, tmp_path: Path) -> None:
    """The digest in the version's tags is the one of the files that a server downloads; no code is pickled."""
    done = train(store, data)
    files = Path(mlflow.artifacts.download_artifacts(f"models:/{MODEL}/{done.version}", dst_path=str(tmp_path / "m")))
    assert contract.tree_digest(files) == store.registry().version(MODEL, done.version).tags[contract.TAG_MODEL_DIGEST]
    assert {file.suffix for file in files.rglob("*") if file.is_file()}.isdisjoint({".pkl", ".pth", ".py"})
    assert json.loads((files / "data/network/features.json").read_text()) == list(FEATURES)
    requirements = (files / "requirements.txt").read_text().split()
    assert {line.partition("==")[0] for line in requirements} == {"mlflow", "numpy", "pandas", "torch"}
