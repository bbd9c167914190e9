"""Builds a partition's training set and keeps it in MLflow, where pods fetch it."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from airflow.sdk import BaseOperator

from airflow_provider_ragops.contract import (
    ARTIFACT_TRAINING_SET,
    TAG_CUTOFF,
    TAG_DATA_DIGEST,
    TAG_KIND,
    TAG_PARTITION,
    Partition,
    file_digest,
)
from airflow_provider_ragops.features.training_set import Observations, TrainingSet, build, write
from airflow_provider_ragops.hooks.feast import FeastHook
from airflow_provider_ragops.hooks.location import open_location
from airflow_provider_ragops.hooks.mlflow import MlflowHook
from airflow_provider_ragops.links.mlflow import MlflowRunLink
from airflow_provider_ragops.operators.translation import translated_errors

if TYPE_CHECKING:
    from airflow.sdk import Context

_FILE = "training_set.parquet"


class TrainingSetResult(TypedDict):
    """Where the training set is. ``cutoff`` is its newest observation time (ISO)."""

    uri: str
    run_id: str
    digest: str
    rows: int
    cutoff: str


class TrainingSetBuildOperator(BaseOperator):
    """
    Label, join point-in-time, check for leakage, split, and log one Parquet file to MLflow.

    The same content is logged once: a finished run with the partition and the digest is found again. Returns
    :class:`TrainingSetResult`.

    :param model: registered model; salts the held-out split (templated)
    :param feature_view: name of the Feast view
    :param location: path or URL of the transactions' day folders (templated)
    :param partition: key of the partition (templated)
    :param experiment: MLflow experiment (templated)
    :param observations: horizon, window, step and lag
    :param repo: folder of feature_store.yaml; default: the connection's (templated)
    :param conn_id: Airflow connection of the storage
    :param feast_conn_id: Airflow connection of type ``feast``
    :param mlflow_conn_id: Airflow connection of type ``mlflow``
    """

    template_fields = ("model", "location", "partition", "experiment", "repo")
    operator_extra_links = (MlflowRunLink(),)

    def __init__(
        self, *, model: str, feature_view: str, location: str, partition: str, experiment: str,
        observations: Observations | None = None, repo: str | None = None, conn_id: str | None = None,
        feast_conn_id: str = "feast_default", mlflow_conn_id: str = "mlflow_default", **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.model = model
        self.feature_view = feature_view
        self.location = location
        self.partition = partition
        self.experiment = experiment
        self.observations = observations
        self.repo = repo
        self.conn_id = conn_id
        self.feast_conn_id = feast_conn_id
        self.mlflow_conn_id = mlflow_conn_id

    def execute(self, context: Context) -> TrainingSetResult:  # noqa: ARG002 - Airflow's signature
        with translated_errors(), tempfile.TemporaryDirectory() as folder:
            partition = Partition.parse(self.partition)
            found = build(
                FeastHook(self.feast_conn_id, repo=self.repo).store(), self.feature_view,
                open_location(self.location, self.conn_id), partition, model=self.model,
                observations=self.observations,
            )
            self.log.info("Training set of partition %s: %s", partition.key, found.as_dict())
            return self._keep(found, partition.key, Path(folder) / _FILE)

    def _keep(self, found: TrainingSet, partition: str, path: Path) -> TrainingSetResult:
        write(found, path)
        digest, cutoff = file_digest(path), found.cutoff.isoformat()
        hook = MlflowHook(self.mlflow_conn_id)
        tags = {TAG_KIND: "training-set", TAG_PARTITION: partition, TAG_DATA_DIGEST: digest}
        run = hook.find_run(self.experiment, tags)
        name = f"training-set-{partition}"
        run_id: str = run.info.run_id if run else hook.start_run(self.experiment, name, {**tags, TAG_CUTOFF: cutoff})
        self.mlflow_run_url = hook.run_url(run or hook.run(run_id))
        if run is None or run.info.status != "FINISHED":  # an unfinished run is one whose upload was cut short
            hook.log_file(run_id, path, ARTIFACT_TRAINING_SET)
            hook.log_json(run_id, f"{ARTIFACT_TRAINING_SET}/verdict.json", {**found.as_dict(), "digest": digest})
            hook.end_run(run_id)
        uri = f"runs:/{run_id}/{ARTIFACT_TRAINING_SET}/{_FILE}"
        return {"uri": uri, "run_id": run_id, "digest": digest, "rows": len(found.frame), "cutoff": cutoff}
