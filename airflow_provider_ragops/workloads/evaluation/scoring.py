"""Score the held-out rows with one loaded version."""

from __future__ import annotations

import logging
import math
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np

from airflow_provider_ragops import contract
from airflow_provider_ragops.exceptions import DataError
from airflow_provider_ragops.workloads import metrics

if TYPE_CHECKING:
    from mlflow.pyfunc import PyFuncModel

    from airflow_provider_ragops.workloads.evaluation.pinned import Pinned
    from airflow_provider_ragops.workloads.metrics import Floats
    from airflow_provider_ragops.workloads.training_set import TrainingSet

log = logging.getLogger(__name__)

class VersionMetrics(TypedDict):
    """One version's part of metrics.json. A metric that is undefined is null; ``error`` says why none is there."""

    version: str
    run_id: str
    split_id: str
    rows: int
    auc: float | None
    log_loss: float | None
    brier: float | None
    error: str | None


def score(model: PyFuncModel, data: TrainingSet, pinned: Pinned) -> Floats:
    """Give a probability per held-out row, in their order.

    :raises DataError: when the model refuses the rows, or answers with anything but a probability for each.
    """
    subject, rows = f"predictions of {pinned.subject}", len(data.held_out)
    if missing := sorted(_wanted(model) - set(data.features)):
        raise DataError(
            subject, expected=f"the features {', '.join(sorted(_wanted(model)))}",
            seen=f"no {', '.join(missing)} in {data.uri}", action="Train with these features, or release the change.",
        )
    try:
        answer = np.asarray(model.predict(data.held_out[list(data.features)]), dtype=np.float64).reshape(-1)
    except Exception as error:  # whatever a model raises: predicting is local, so it is about these rows
        # Only the end of the text: MLflow begins it with the rows.
        raise DataError(
            subject, expected="a model that accepts the held-out rows",
            seen=f"{type(error).__name__}: {str(error)[-300:]}", action="Compare its signature with the features.",
        ) from error
    if len(answer) != rows or not ((answer >= 0) & (answer <= 1)).all():
        raise DataError(
            subject, expected=f"{rows} probabilities from 0 to 1",
            seen=f"{len(answer)} values from {answer.min(initial=math.inf)} to {answer.max(initial=-math.inf)}",
            action="Check what the model's predict returns.",
        )
    return answer


def _wanted(model: PyFuncModel) -> set[str]:
    """Names of the columns that the model's signature asks for; empty where it has none."""
    schema = model.metadata.get_input_schema()
    return set(schema.required_input_names()) if schema and schema.has_input_names() else set()


def judge(pinned: Pinned, data: TrainingSet, scores: Floats) -> VersionMetrics:
    """Compute a version's metrics from its scores."""
    found = metrics.summary(data.held_out[contract.COLUMN_LABEL], scores)
    log.info("version %s: %s", pinned.version, ", ".join(f"{name} {value:.6f}" for name, value in found.items()))
    return VersionMetrics(
        version=pinned.version, run_id=pinned.run_id, split_id=pinned.split_id, rows=len(scores),
        auc=_known(found["auc"]), log_loss=_known(found["log_loss"]), brier=_known(found["brier"]), error=None,
    )


def unscored(pinned: Pinned, error: Exception, names: tuple[str, ...]) -> dict[str, Any]:
    """Say that a version could not be scored on these rows, and why; its metrics, by these names, are null."""
    told = {"version": pinned.version, "run_id": pinned.run_id, "split_id": pinned.split_id, "rows": 0}
    return {**told, **dict.fromkeys(names), "error": str(error)[:500]}


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value
