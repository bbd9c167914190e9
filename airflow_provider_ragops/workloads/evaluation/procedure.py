"""The steps of an evaluation: load, score both versions, keep predictions and metrics, completion marker."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from airflow_provider_ragops import contract
from airflow_provider_ragops.exceptions import DataError, RegistryError
from airflow_provider_ragops.workloads import recording, training_set
from airflow_provider_ragops.workloads.environment import WorkloadEnvironment
from airflow_provider_ragops.workloads.evaluation import pinned, scoring, slices
from airflow_provider_ragops.workloads.evaluation.arguments import EvaluationArguments
from airflow_provider_ragops.workloads.process import StopCheck

if TYPE_CHECKING:
    import pandas as pd
    from mlflow import MlflowClient
    from mlflow.pyfunc import PyFuncModel

    from airflow_provider_ragops.workloads.evaluation.pinned import Pinned
    from airflow_provider_ragops.workloads.evaluation.slices import Slice
    from airflow_provider_ragops.workloads.metrics import Floats
    from airflow_provider_ragops.workloads.training_set import TrainingSet

log = logging.getLogger(__name__)

PREDICTIONS = "predictions.parquet"
METRICS = "metrics.json"


class Measurement(Protocol):
    """What a kind of model is measured with. ``metrics`` are the names that :meth:`judge` gives."""

    metrics: tuple[str, ...]

    def fetch(self, uri: str, digest: str, model: str, folder: Path) -> Any: ...
    def groups(self, wanted: tuple[Slice, ...], data: Any) -> dict[str, list[str]]: ...
    def rows(self, data: Any) -> pd.DataFrame: ...
    def score(self, model: PyFuncModel, data: Any, pinned: Pinned) -> Floats: ...
    def judge(self, pinned: Pinned, data: Any, scores: Floats) -> Mapping[str, Any]: ...


class Tabular:
    """A binary classifier: a probability for each held-out row."""

    metrics: tuple[str, ...] = ("auc", "log_loss", "brier")

    def fetch(self, uri: str, digest: str, model: str, folder: Path) -> TrainingSet:
        return training_set.fetch(uri, digest, model, folder)

    def groups(self, wanted: tuple[Slice, ...], data: TrainingSet) -> dict[str, list[str]]:
        return slices.columns(wanted, data)

    def rows(self, data: TrainingSet) -> pd.DataFrame:
        found = data.held_out[[contract.COLUMN_ENTITY, contract.COLUMN_TIME]]
        return found.assign(label=data.held_out[contract.COLUMN_LABEL])

    def score(self, model: PyFuncModel, data: TrainingSet, pinned: Pinned) -> Floats:
        return scoring.score(model, data, pinned)

    def judge(self, pinned: Pinned, data: TrainingSet, scores: Floats) -> Mapping[str, Any]:
        return scoring.judge(pinned, data, scores)


def evaluate(
    arguments: EvaluationArguments, environment: WorkloadEnvironment, check: StopCheck = lambda: None,
    measurement: Measurement | None = None,
) -> str:
    """Evaluate in a new run beside the candidate's training run; returns the run id.

    ``check`` is called before each effect and raises when the process was told to stop; ``measurement`` is the kind
    of model (default: tabular).

    :raises UnreachableError: when MLflow does not answer.
    :raises RegistryError: when the candidate, or its files, do not exist.
    :raises DataError: when the training set is not the one asked for or lacks a slice's feature, or the candidate's
        files are damaged, or it can't score the rows.
    """
    kind = measurement or Tabular()
    client = recording.connect(environment.tracking_uri)
    candidate = pinned.pin(client, arguments.model, arguments.candidate)
    run_id = _start(client, arguments, environment, candidate)
    with recording.failed_on_error(client, run_id):
        with tempfile.TemporaryDirectory() as folder:
            data = kind.fetch(arguments.data_uri, arguments.data_digest, arguments.model, Path(folder))
        groups = kind.groups(arguments.slices, data)
        check()
        predictions, found = _score(client, arguments, candidate, data, kind)
        check()
        _keep(client, run_id, predictions.assign(**groups), found, kind.metrics)
        check()
        client.set_tag(run_id, contract.TAG_COMPLETED, environment.attempt)
        client.set_terminated(run_id, recording.FINISHED)
    log.info("evaluation of %s version %s is complete (run %s)", arguments.model, arguments.candidate, run_id)
    return run_id


def _start(
    client: MlflowClient, arguments: EvaluationArguments, environment: WorkloadEnvironment, candidate: Pinned
) -> str:
    tags = {
        contract.TAG_KIND: "evaluation",
        contract.TAG_PARTITION: arguments.partition,
        contract.TAG_DATA_DIGEST: arguments.data_digest,
        contract.TAG_CANDIDATE: arguments.candidate,
        contract.TAG_GATE_CHAMPION: arguments.champion or contract.NO_VERSION,
        contract.TAG_ATTEMPT: environment.attempt,
        contract.TAG_IMAGE: environment.image,
    }
    experiment = client.get_run(candidate.run_id).info.experiment_id
    run = client.create_run(experiment, tags=tags, run_name=f"evaluation of version {arguments.candidate}")
    return str(run.info.run_id)


def _score(
    client: MlflowClient, arguments: EvaluationArguments, candidate: Pinned, data: Any, kind: Measurement
) -> tuple[pd.DataFrame, dict[str, Any]]:
    with pinned.loaded(candidate) as model:
        scores = kind.score(model, data, candidate)
    champion_scores, champion_metrics = _score_champion(client, arguments, data, kind, len(scores))
    predictions = kind.rows(data).assign(candidate=scores, champion=champion_scores)
    return predictions, {
        "candidate": kind.judge(candidate, data, scores),
        "champion": champion_metrics,
        "data_digest": arguments.data_digest,
        "partition": arguments.partition,
        "slices": [each.name for each in arguments.slices],
    }


def _score_champion(
    client: MlflowClient, arguments: EvaluationArguments, data: Any, kind: Measurement, rows: int
) -> tuple[Floats, Mapping[str, Any] | None]:
    """Score the champion. One whose files are gone, or that refuses these rows, is reported and not fatal.

    Otherwise no new set of features could ever reach the gate, which decides what to make of it.
    """
    if arguments.champion is None:
        return np.full(rows, np.nan), None
    champion = pinned.pin(client, arguments.model, arguments.champion)
    try:
        with pinned.loaded(champion) as model:
            scores = kind.score(model, data, champion)
    except (DataError, RegistryError) as error:
        log.warning("champion %s can't score these rows: %s", champion.subject, error)
        return np.full(rows, np.nan), scoring.unscored(champion, error, kind.metrics)
    return scores, kind.judge(champion, data, scores)


def _keep(
    client: MlflowClient, run_id: str, predictions: pd.DataFrame, found: dict[str, Any], names: tuple[str, ...]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / PREDICTIONS
        predictions.to_parquet(path, index=False)
        client.log_artifact(run_id, str(path), contract.ARTIFACT_EVALUATION)
    client.log_dict(run_id, found, f"{contract.ARTIFACT_EVALUATION}/{METRICS}")
    for side in ("candidate", "champion"):
        for name in names:
            if (value := (found[side] or {}).get(name)) is not None:
                client.log_metric(run_id, f"{side}_{name}", value)
