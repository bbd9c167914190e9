"""MLflow runs of the workloads: reachable or a clear error; a run never stays RUNNING after an error."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from airflow_provider_ragops.exceptions import UnreachableError

if TYPE_CHECKING:
    from mlflow import MlflowClient

log = logging.getLogger(__name__)

FAILED = "FAILED"
FINISHED = "FINISHED"


def connect(tracking_uri: str) -> MlflowClient:
    """Give a client of a server that has answered once.

    :raises UnreachableError: when it did not answer; the address is in the message.
    """
    import mlflow
    from mlflow.exceptions import MlflowException

    mlflow.set_tracking_uri(tracking_uri)
    client = mlflow.MlflowClient()
    try:
        client.search_experiments(max_results=1)
    except (MlflowException, OSError) as error:
        raise UnreachableError(
            f"MLflow at {tracking_uri}", expected="an answer", seen=str(error)[:300],
            action="Check that the address is reachable from the pod and that the credentials are right.",
        ) from error
    return client


@contextmanager
def failed_on_error(client: MlflowClient, run_id: str) -> Iterator[None]:
    """Mark the run FAILED when the block raises anything, an exit by SIGTERM included."""
    try:
        yield
    except BaseException:
        log.info("marking run %s as %s", run_id, FAILED)
        client.set_terminated(run_id, FAILED)
        raise


def experiment_id(client: MlflowClient, name: str) -> str:
    """Find the experiment, or create it; another process may do the same at the same time."""
    from mlflow.exceptions import MlflowException

    if found := client.get_experiment_by_name(name):
        return str(found.experiment_id)
    try:
        return str(client.create_experiment(name))
    except MlflowException:
        if found := client.get_experiment_by_name(name):
            return str(found.experiment_id)
        raise
