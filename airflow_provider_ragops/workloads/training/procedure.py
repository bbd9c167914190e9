"""The steps of a training: look, load, fit, evaluate, register, completion marker."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_provider_ragops import contract
from airflow_provider_ragops.workloads import metrics, recording, training_set
from airflow_provider_ragops.workloads.environment import WorkloadEnvironment
from airflow_provider_ragops.workloads.process import StopCheck
from airflow_provider_ragops.workloads.training import registration
from airflow_provider_ragops.workloads.training.arguments import TrainingArguments
from airflow_provider_ragops.workloads.training.registration import Registered
from airflow_provider_ragops.workloads.training.served import PROBABILITY, ServedNetwork

if TYPE_CHECKING:
    from mlflow import MlflowClient

    from airflow_provider_ragops.workloads.training.network import Network
    from airflow_provider_ragops.workloads.training_set import TrainingSet

log = logging.getLogger(__name__)


#: Fetches the data into the folder, fits, logs metrics and model into the active run; gives model URI and digest.
Make = Callable[[TrainingArguments, Path, StopCheck], tuple[str, str]]


def train(
    arguments: TrainingArguments, environment: WorkloadEnvironment, check: StopCheck = lambda: None,
    make: Make | None = None,
) -> Registered:
    """Train and register, or reuse the completed version of the same work.

    ``check`` is called before each effect and raises when the process was told to stop; ``make`` is the kind of
    model (default: the tabular network).

    :raises UnreachableError: when MLflow does not answer.
    :raises DataError: when the training set is not the one that was asked for, or can't be trained on.
    """
    key = registration_key(arguments, environment)
    client = recording.connect(environment.tracking_uri)
    if done := registration.find_completed(client, arguments.model, key):
        log.info("version %s of %s was completed by attempt %s with registration key %s: reused",
                 done.version, arguments.model, done.attempt, key)
        return done
    run_id = _start(client, arguments, environment, key)
    with recording.failed_on_error(client, run_id):
        own = _make_and_register(client, run_id, arguments, environment, check, make or _make_network)
        check()
        result = registration.complete(client, arguments.model, own, key)
    log.info("version %s of %s is complete (run %s, attempt %s)",
             result.version, arguments.model, result.run_id, result.attempt)
    return result


def registration_key(arguments: TrainingArguments, environment: WorkloadEnvironment) -> str:
    return contract.registration_key(
        arguments.model, arguments.partition, arguments.data_digest, arguments.parameters.digest, environment.image
    )


def lineage(arguments: TrainingArguments, environment: WorkloadEnvironment) -> dict[str, str]:
    """Tags of the run and of the version: where it comes from. The completion marker is not among them."""
    return {
        contract.TAG_REGISTRATION_KEY: registration_key(arguments, environment),
        contract.TAG_PARTITION: arguments.partition,
        contract.TAG_DATA_DIGEST: arguments.data_digest,
        contract.TAG_PARAMS_DIGEST: arguments.parameters.digest,
        contract.TAG_IMAGE: environment.image,
        contract.TAG_SPLIT_ID: contract.split_id(arguments.model),
        contract.TAG_CUTOFF: arguments.cutoff,
        contract.TAG_GIT_COMMIT: environment.git_commit,
        contract.TAG_ATTEMPT: environment.attempt,
    }


def _start(client: MlflowClient, arguments: TrainingArguments, environment: WorkloadEnvironment, key: str) -> str:
    tags = {contract.TAG_KIND: "training", **lineage(arguments, environment)}
    run = client.create_run(
        recording.experiment_id(client, arguments.experiment), tags=tags,
        run_name=f"training {arguments.partition} {key[:8]}",
    )
    for name, value in {**asdict(arguments.parameters), "model": arguments.model, "data": arguments.data_uri}.items():
        client.log_param(run.info.run_id, name, value)
    return str(run.info.run_id)


def _make_and_register(
    client: MlflowClient, run_id: str, arguments: TrainingArguments, environment: WorkloadEnvironment,
    check: StopCheck, make: Make,
) -> Registered:
    import mlflow

    with tempfile.TemporaryDirectory() as folder, mlflow.start_run(run_id=run_id):
        model_uri, model_digest = make(arguments, Path(folder), check)
        tags = lineage(arguments, environment) | {contract.TAG_MODEL_DIGEST: model_digest}
        check()
        version = registration.register(model_uri, arguments.model, tags)
        client.set_tag(run_id, contract.TAG_COMPLETED, environment.attempt)
    return Registered(version, run_id, environment.attempt)


def _make_network(arguments: TrainingArguments, folder: Path, check: StopCheck) -> tuple[str, str]:
    import mlflow

    from airflow_provider_ragops.workloads.training.fit import fit
    from airflow_provider_ragops.workloads.training.logged_model import log_model

    def report(epoch: int, values: dict[str, float]) -> None:
        log.info("epoch %d of %d: %s", epoch, arguments.parameters.epochs,
                 ", ".join(f"{name} {value:.6f}" for name, value in values.items()))
        mlflow.log_metrics(values, step=epoch)

    data = training_set.fetch(arguments.data_uri, arguments.data_digest, arguments.model, folder)
    log_input(data.uri, data.digest)
    network = fit(data, arguments.parameters, report, check)
    check()
    _log_held_out(network, data)
    return log_model(network, data)


def log_input(uri: str, digest: str) -> None:
    """Note the training set in the active run."""
    import mlflow
    from mlflow.data.code_dataset_source import CodeDatasetSource
    from mlflow.data.meta_dataset import MetaDataset

    # MLflow has no kind of source for a runs:/ URI; this kind keeps it as text.
    source = CodeDatasetSource({"uri": uri})
    mlflow.log_input(MetaDataset(source, name="training_set", digest=digest), context="training")


def _log_held_out(network: Network, data: TrainingSet) -> None:
    """Log the metrics of the model as it will be served, on the CPU."""
    import mlflow

    scores = ServedNetwork(network, data.features).predict(data.held_out)[PROBABILITY]
    values = metrics.summary(data.held_out[contract.COLUMN_LABEL], scores)
    log.info("held out: %s", ", ".join(f"{name} {value:.6f}" for name, value in values.items()))
    mlflow.log_metrics(values)
