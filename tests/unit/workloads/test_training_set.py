from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from airflow_provider_ragops.exceptions import DataError
from airflow_provider_ragops.hooks.mlflow import MlflowHook
from airflow_provider_ragops.workloads import training_set
from tests.unit.workloads.training_sets import FEATURES, MODEL, log_training_set, rows

Change = Callable[[pd.DataFrame], pd.DataFrame]


def check(frame: pd.DataFrame) -> training_set.TrainingSet:
    return training_set.check(frame, uri="runs:/r/training_set.parquet", digest="d", model=MODEL)


def test_rows_are_split_and_features_found() -> None:
    """Everything that is no key, time, label or split is a feature; each row lands on its side."""
    frame = rows()
    found = check(frame)
    assert found.features == FEATURES
    assert len(found.train) == (frame["split"] == "train").sum() > len(found.held_out) > 0
    assert set(found.held_out["split"]) == {"held_out"}


def _one_label(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.assign(churned=np.where(frame["split"] == "train", 1, frame["churned"]))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda frame: frame.head(0), "expected rows; saw an empty file"),
        (lambda frame: frame.drop(columns=["churned", "split"]), "saw no churned, split"),
        (lambda frame: frame.drop(columns=list(FEATURES)), "expected feature columns"),
        (lambda frame: frame.assign(churned=frame["churned"].where(frame.index > 2)), "saw 3 NaN labels"),
        (lambda frame: frame.assign(churned=frame["churned"] * 2), r"labels \[(np.int64\()?2"),
        (_one_label, "expected both labels in split 'train'; saw only label 1"),
        (lambda frame: frame.assign(recency="far"), "numbers in column 'recency'"),
        (lambda frame: frame.assign(amount=np.inf), "'amount'; saw 400 infinite values"),
        (lambda frame: frame.assign(amount=np.nan), "nothing but NaN in amount"),
        (lambda frame: frame[frame["split"] == "train"], "expected rows in split 'held_out'"),
        (lambda frame: frame.assign(split="train"), "rows on another side"),
        (lambda frame: rows(model="Other"), f"expected the split of model {MODEL}"),
    ],
)  # fmt: skip
def test_unusable_rows_are_refused(change: Change, message: str) -> None:
    """An unusable training set is refused before any training, naming column and count."""
    with pytest.raises(DataError, match=message) as refused:
        check(change(rows()))
    assert refused.value.permanent
    assert "runs:/r/training_set.parquet" in str(refused.value)


def test_other_content_is_refused(mlflow_store: MlflowHook, tmp_path: Path) -> None:
    """A file whose digest is not the announced one is refused: someone replaced it."""
    uri, digest = log_training_set(mlflow_store, rows(), tmp_path)
    assert training_set.fetch(uri, digest, MODEL, tmp_path / "a").digest == digest
    with pytest.raises(DataError, match=f"digest 0123456789abcdef; saw digest {digest}"):
        training_set.fetch(uri, "0123456789abcdef", MODEL, tmp_path / "b")
