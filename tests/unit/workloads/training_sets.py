"""Small training sets with a signal to learn, and their way into an MLflow store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from airflow_provider_ragops import contract
from airflow_provider_ragops.hooks.mlflow import MlflowHook
from airflow_provider_ragops.workloads.environment import WorkloadEnvironment
from airflow_provider_ragops.workloads.training.arguments import TrainingArguments
from airflow_provider_ragops.workloads.training.parameters import TrainingParameters

MODEL = "Churn"
FEATURES = ("recency", "amount", "count")


def rows(count: int = 400, *, model: str = MODEL, nan_share: float = 0.0, seed: int = 0) -> pd.DataFrame:
    """Rows whose label follows the features, on very different scales; the split follows the model's rule."""
    source = np.random.default_rng(seed)
    values = source.normal(size=(count, len(FEATURES)))
    label = (source.random(count) < 1 / (1 + np.exp(-3 * values[:, 0] + values[:, 1]))).astype("int64")
    values = values * [10.0, 2_000.0, 0.5] + [50.0, 1e6, 0.0]
    values[source.random(values.shape) < nan_share] = np.nan
    frame = pd.DataFrame(values, columns=list(FEATURES))
    frame.insert(0, contract.COLUMN_ENTITY, np.arange(count))
    frame.insert(1, contract.COLUMN_TIME, pd.Timestamp("2026-08-30", tz="UTC"))
    frame[contract.COLUMN_LABEL] = label
    frame[contract.COLUMN_SPLIT] = [contract.split_of(model, str(user)) for user in range(count)]
    return frame


def log_training_set(hook: MlflowHook, frame: pd.DataFrame, folder: Path) -> tuple[str, str]:
    """Log as the data steps do; returns the artifact's URI and its digest."""
    path = folder / "training_set.parquet"
    frame.to_parquet(path, index=False)
    run_id = hook.start_run("churn", "training set", {contract.TAG_KIND: "training-set"})
    hook.client().log_artifact(run_id, str(path), contract.ARTIFACT_TRAINING_SET)
    hook.end_run(run_id)
    return f"runs:/{run_id}/{contract.ARTIFACT_TRAINING_SET}/{path.name}", contract.file_digest(path)


def arguments(data: tuple[str, str], **parameters: Any) -> TrainingArguments:
    chosen = {"epochs": 3, "batch_size": 64, "learning_rate": 0.01, "seed": 7} | parameters
    return TrainingArguments(
        model=MODEL, experiment="churn", data_uri=data[0], data_digest=data[1], partition="2026-11-29",
        cutoff="2026-08-31T00:00:00+00:00", parameters=TrainingParameters.parse(chosen),
    )  # fmt: skip


def environment(hook: MlflowHook, attempt: str = "attempt-1", image: str = "training:1") -> WorkloadEnvironment:
    return WorkloadEnvironment(hook.tracking_uri, attempt, image, "c0ffee")
