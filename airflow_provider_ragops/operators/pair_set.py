"""Keeps a partition's question-passage pairs in MLflow, split, where the pods fetch them."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from airflow_provider_ragops.contract import (
    ARTIFACT_TRAINING_SET,
    COLUMN_TIME,
    TAG_CUTOFF,
    TAG_DATA_DIGEST,
    TAG_KIND,
    TAG_PARTITION,
    Partition,
    file_digest,
)
from airflow_provider_ragops.features.pair_set import split_pairs
from airflow_provider_ragops.hooks.location import open_location
from airflow_provider_ragops.hooks.mlflow import MlflowHook
from airflow_provider_ragops.links.mlflow import MlflowRunLink
from airflow_provider_ragops.operators import rendered
from airflow_provider_ragops.operators.training_set import TrainingSetResult
from airflow_provider_ragops.operators.translation import translated_errors
from airflow_provider_ragops.validation.reading import read_partition

if TYPE_CHECKING:
    import pandas as pd
    from airflow.sdk import Context

_FILE = "training_set.parquet"


class PairSetBuildOperator(BaseOperator):
    """
    Split a partition of question-passage pairs by module, and log one Parquet file to MLflow.

    The same content is logged once: a finished run with the partition and the digest is found again. Returns
    :class:`~airflow_provider_ragops.operators.training_set.TrainingSetResult`.

    :param model: registered model; salts the held-out split (templated)
    :param location: path or URL of the day folders (templated)
    :param partition: key of the partition; of several days the newest is taken (templated)
    :param experiment: MLflow experiment (templated)
    :param conn_id: Airflow connection of the storage
    :param mlflow_conn_id: Airflow connection of MLflow
    """

    template_fields = ("model", "location", "partition", "experiment")
    operator_extra_links = (MlflowRunLink(),)

    def __init__(
        self, *, model: str, location: str, partition: str, experiment: str, conn_id: str | None = None,
        mlflow_conn_id: str = "mlflow_default", **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.model = model
        self.location = location
        self.partition = partition
        self.experiment = experiment
        self.conn_id = conn_id
        self.mlflow_conn_id = mlflow_conn_id

    def execute(self, context: Context) -> TrainingSetResult:  # noqa: ARG002 - Airflow's signature
        with translated_errors(), tempfile.TemporaryDirectory() as folder:
            partition = Partition.parse(self.partition)
            frame = read_partition(*open_location(self.location, self.conn_id), partition)
            found = split_pairs(frame, rendered.required("model", self.model))
            self.log.info("Pairs of partition %s: %d, by side %s", partition.key, len(found),
                          found["split"].value_counts().to_dict())
            return self._keep(found, partition.key, Path(folder) / _FILE)

    def _keep(self, found: pd.DataFrame, partition: str, path: Path) -> TrainingSetResult:
        found.to_parquet(path, index=False)
        digest, cutoff = file_digest(path), found[COLUMN_TIME].max().isoformat()
        hook = MlflowHook(self.mlflow_conn_id)
        tags = {TAG_KIND: "training-set", TAG_PARTITION: partition, TAG_DATA_DIGEST: digest}
        run = hook.find_run(self.experiment, tags)
        name = f"training-set-{partition}"
        run_id: str = run.info.run_id if run else hook.start_run(self.experiment, name, {**tags, TAG_CUTOFF: cutoff})
        self.mlflow_run_url = hook.run_url(run or hook.run(run_id))
        if run is None or run.info.status != "FINISHED":  # an unfinished run is one whose upload was cut short
            hook.log_file(run_id, path, ARTIFACT_TRAINING_SET)
            hook.end_run(run_id)
        uri = f"runs:/{run_id}/{ARTIFACT_TRAINING_SET}/{_FILE}"
        return {"uri": uri, "run_id": run_id, "digest": digest, "rows": len(found), "cutoff": cutoff}
