"""Train a model in a GPU pod and prove by MLflow that a complete version came out of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from airflow_provider_ragops import contract
from airflow_provider_ragops.contract import TrainingResult
from airflow_provider_ragops.exceptions import ConfigurationError
from airflow_provider_ragops.operators import pod_parts, rendered
from airflow_provider_ragops.operators.translation import translated_errors
from airflow_provider_ragops.operators.workload import RETURN_VALUE, WorkloadPodOperator
from airflow_provider_ragops.workloads.training.parameters import TrainingParameters

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_provider_ragops.promotion.registry import VersionInfo


class GpuTrainingPodOperator(WorkloadPodOperator):
    """
    Train a candidate: one registered version per model, partition, data, parameters and image.

    A completed version of the same work is reused without starting a pod. Otherwise the pod trains, and success
    means: MLflow holds a version with the registration key whose run is FINISHED and which carries the completion
    marker. Returns :class:`~airflow_provider_ragops.contract.TrainingResult`.

    :param experiment: MLflow experiment of the training run. (templated)
    :param cutoff: ISO time with zone; nothing later may be known to the training set. (templated)
    :param epochs: 1 to 10000. (templated)
    :param batch_size: Rows per step, 1 to 1048576. (templated)
    :param learning_rate: Adam's step size, 1e-8 to 10. (templated)
    :param seed: 0 to 4294967295. (templated)
    :param gpus: GPUs of the pod; 0 trains on the CPU.
    :param gpu_resource: Name of the extended resource, and of the taint that the pod tolerates.
    :param cpu: CPU request.
    :param cpu_limit: CPU limit; none by default, because throttled training holds its GPU longer.
    :param memory: Memory request and limit.
    :param shared_memory: Size of /dev/shm; counts as the pod's memory.
    :param image: Image with the workloads. Its name is part of the registration key, so it must name one build: a tag
        other than ``latest``, or a digest. (templated)
    :param schedule_timeout_seconds: How long the pod may wait for a node; GPU nodes often have to be started.
    :param startup_timeout_seconds: How long a scheduled pod may take to start; the image has gigabytes.
    """

    template_fields: Sequence[str] = (
        *WorkloadPodOperator.template_fields,
        "experiment", "cutoff", "epochs", "batch_size", "learning_rate", "seed",
    )  # fmt: skip
    workload = "airflow_provider_ragops.workloads.training"

    def __init__(
        self,
        *,
        experiment: str,
        cutoff: str,
        epochs: int | str = 20,
        batch_size: int | str = 256,
        learning_rate: float | str = 1e-3,
        seed: int | str = 0,
        gpus: int = 1,
        gpu_resource: str = "nvidia.com/gpu",
        cpu: str = "1",
        cpu_limit: str | None = None,
        memory: str = "2Gi",
        shared_memory: str = "1Gi",
        schedule_timeout_seconds: int = 1800,
        startup_timeout_seconds: int = 600,
        **kwargs: Any,
    ) -> None:
        volume, mount = pod_parts.shared_memory(shared_memory)
        kwargs["volumes"] = [*kwargs.get("volumes", ()), volume]
        kwargs["volume_mounts"] = [*kwargs.get("volume_mounts", ()), mount]
        if gpus:
            kwargs["tolerations"] = [*kwargs.get("tolerations", ()), pod_parts.gpu_toleration(gpu_resource)]
        kwargs.setdefault(
            "container_resources",
            pod_parts.resources(cpu, memory, cpu_limit, gpus, gpu_resource),
        )
        super().__init__(
            schedule_timeout_seconds=schedule_timeout_seconds, startup_timeout_seconds=startup_timeout_seconds,
            **kwargs,
        )
        self.experiment = experiment
        self.cutoff = cutoff
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.seed = seed
        self.gpus = gpus
        self.gpu_resource = gpu_resource
        self.cpu = cpu
        self.cpu_limit = cpu_limit
        self.memory = memory
        self.shared_memory = shared_memory

    def execute(self, context: Context) -> None:
        """Train or reuse.

        :raises AirflowFailException: when a retry can't help; the message names pod, attempt and next step.
        :raises WorkloadFailedError: when the pod failed in a way that may pass.
        :raises UnreachableError: when MLflow or the cluster did not answer.
        """
        with translated_errors():
            self._require_pinned_image()
            key = self.registration_key
            result = self._reusable(key) or self._train(context, key)
            self.log.info("version %(version)s of %(model)s (run %(run_id)s, reused: %(reused)s)", result)
            # Not returned: the base class' do_xcom_push=False means "no sidecar" and "no return value" alike.
            context["ti"].xcom_push(key=RETURN_VALUE, value=result)

    @property
    def parameters(self) -> TrainingParameters:
        """The hyperparameters after rendering.

        :raises ConfigurationError: when one is no number of its kind, or out of bounds.
        """
        return TrainingParameters.parse(vars(self))

    @property
    def registration_key(self) -> str:
        return contract.registration_key(
            self.model, self.partition_key, self.data_digest, self.parameters.digest, str(self.image)
        )

    @property
    def command_line(self) -> list[str]:
        values = {
            "model": self.model, "experiment": self.experiment, "data": self.data_uri,
            "data-digest": self.data_digest, "partition": self.partition_key, "cutoff": self.cutoff,
        } | {name.replace("_", "-"): value for name, value in asdict(self.parameters).items()}  # fmt: skip
        return [text for name, value in values.items() for text in (f"--{name}", str(value))]

    def _require_pinned_image(self) -> None:
        image = rendered.required("image", self.image)
        if not pod_parts.is_pinned(image):
            raise ConfigurationError(
                f"image of task {self.task_id}", expected="a tag other than latest, or a digest (@sha256:...)",
                seen=repr(image),
                action="Pin the image: with a moving tag, a rebuilt one would silently reuse an old image's version.",
            )

    def _reusable(self, key: str) -> TrainingResult | None:
        found = self._completed(key)
        return self._result(found, reused=True) if found else None

    def _train(self, context: Context, key: str) -> TrainingResult:
        self.prepare(context, key, self.command_line)
        state = self.run_pod(context)
        if not (found := self._completed(key)):
            raise self.no_proof(
                state, expected=f"a completed version of {self.model} with registration key {key}",
                seen=self._leftovers(key),
            )
        return self._result(found, reused=found.tags[contract.TAG_COMPLETED] != self.attempt)

    def _completed(self, key: str) -> VersionInfo | None:
        """Find the version that counts: complete in itself and in its run; the lowest where there are several."""
        for version in reversed(self.mlflow.registry().find(self.model, {contract.TAG_REGISTRATION_KEY: key})):
            marker = version.tags.get(contract.TAG_COMPLETED)
            if not marker or not version.run_id:
                continue
            run = self.mlflow.run(version.run_id)
            if contract.is_completed(marker, run.info.status, run.data.tags):
                self.mlflow_run_url = self.mlflow.run_url(run)
                return version
        return None

    def _leftovers(self, key: str) -> str:
        run = self.mlflow.find_run(self.experiment, {contract.TAG_ATTEMPT: self.attempt})
        seen = "MLflow has no run of this attempt"
        if run:
            self.mlflow_run_url = self.mlflow.run_url(run)
            seen = f"run {run.info.run_id} is {run.info.status}"
        versions = self.mlflow.registry().find(self.model, {contract.TAG_REGISTRATION_KEY: key})
        numbers = ", ".join(version.version for version in versions)
        return f"{seen}, and " + (f"version {numbers} has no completion marker" if numbers else "no version")

    def _result(self, found: VersionInfo, *, reused: bool) -> TrainingResult:
        return TrainingResult(
            model=self.model, version=found.version, run_id=found.run_id,
            attempt=found.tags[contract.TAG_COMPLETED], reused=reused,
        )
