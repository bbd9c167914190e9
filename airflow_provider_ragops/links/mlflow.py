"""A button on the task's page that opens the MLflow run which the task wrote."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow.sdk import BaseOperatorLink

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator
    from airflow.sdk.types import TaskInstanceKey


class MlflowRunLink(BaseOperatorLink):
    """
    Link to a run. The operator sets ``self.mlflow_run_url`` during ``execute`` (see ``MlflowHook.run_url``).

    Airflow stores the link as an XCom when the task ends, failed or not; the page reads it from there.
    """

    name = "MLflow run"
    xcom_key = "mlflow_run_url"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:  # noqa: ARG002
        return getattr(operator, "mlflow_run_url", "")
