"""Checks a partition's contract and keeps the report in MLflow, whatever the verdict."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from airflow_provider_ragops.contract import (
    ARTIFACT_CONTRACT,
    COLUMN_TIME,
    TAG_KIND,
    TAG_PARTITION,
    Partition,
)
from airflow_provider_ragops.hooks.location import open_location
from airflow_provider_ragops.hooks.mlflow import MlflowHook
from airflow_provider_ragops.links.mlflow import MlflowRunLink
from airflow_provider_ragops.operators.translation import translated_errors
from airflow_provider_ragops.validation.check import check, load_schema
from airflow_provider_ragops.validation.reading import read_partition
from airflow_provider_ragops.validation.report import ContractReport

if TYPE_CHECKING:
    from airflow.sdk import Context

_TAG_SCHEMA = "ragops.contract"


class ContractValidateOperator(BaseOperator):
    """
    Validate a partition against a Pandera schema; all violations at once.

    The report is logged as a table and kept as ``contract/report.json`` of an MLflow run, one run per partition
    and schema. Broken contract: the task fails without retry, naming column, check, count and examples.
    Returns ``{"run_id", "rows"}``.

    :param schema: import path ``package.module:attribute`` of a DataFrameSchema or DataFrameModel
    :param location: path or URL of the day folders (templated)
    :param partition: key of the partition (templated)
    :param experiment: MLflow experiment of the report (templated)
    :param time_column: its values must lie within the partition's days
    :param conn_id: Airflow connection of the storage
    :param mlflow_conn_id: Airflow connection of MLflow
    """

    template_fields = ("location", "partition", "experiment")
    operator_extra_links = (MlflowRunLink(),)

    def __init__(
        self, *, schema: str, location: str, partition: str, experiment: str, time_column: str = COLUMN_TIME,
        conn_id: str | None = None, mlflow_conn_id: str = "mlflow_default", **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.schema = schema
        self.location = location
        self.partition = partition
        self.experiment = experiment
        self.time_column = time_column
        self.conn_id = conn_id
        self.mlflow_conn_id = mlflow_conn_id

    def execute(self, context: Context) -> dict[str, Any]:  # noqa: ARG002 - Airflow's signature
        with translated_errors():
            report = self._check()
            self.log.info("Contract %s, partition %s, %d rows:\n%s",
                          report.schema, report.partition, report.rows, report.table() if report.failures else "kept")
            run_id = self._keep(report)
            report.raise_if_broken()
        return {"run_id": run_id, "rows": report.rows}

    def _check(self) -> ContractReport:
        partition = Partition.parse(self.partition)
        schema = load_schema(self.schema)
        frame = read_partition(*open_location(self.location, self.conn_id), partition)
        return check(frame, schema, partition, name=self.schema, time_column=self.time_column)

    def _keep(self, report: ContractReport) -> str:
        hook = MlflowHook(self.mlflow_conn_id)
        tags = {TAG_KIND: "contract", TAG_PARTITION: report.partition, _TAG_SCHEMA: report.schema}
        run = hook.find_run(self.experiment, tags)
        name = f"contract-{report.partition}"
        run_id: str = run.info.run_id if run else hook.start_run(self.experiment, name, tags)
        self.mlflow_run_url = hook.run_url(run or hook.run(run_id))
        hook.log_json(run_id, f"{ARTIFACT_CONTRACT}/report.json", report.as_dict())
        hook.end_run(run_id, "FINISHED" if report.passed else "FAILED")
        return run_id
