"""The base of operators that run one of our workloads in a pod and take the result from MLflow."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from uuid import uuid4

from airflow.providers.cncf.kubernetes.operators.pod import KubernetesPodOperator
from airflow.sdk.exceptions import AirflowException
from kubernetes.client import models as k8s
from kubernetes.client.exceptions import ApiException
from urllib3.exceptions import HTTPError

from airflow_provider_ragops import contract
from airflow_provider_ragops.exceptions import (
    ConfigurationError,
    RagopsError,
    TrainingError,
    WorkloadFailedError,
)
from airflow_provider_ragops.hooks.mlflow import MlflowHook
from airflow_provider_ragops.links.mlflow import MlflowRunLink
from airflow_provider_ragops.operators import pod_failure, pod_parts, rendered
from airflow_provider_ragops.operators.pod_failure import PodState
from airflow_provider_ragops.operators.pod_watch import PhasePodManager

if TYPE_CHECKING:
    from airflow.sdk import Context

RETURN_VALUE = "return_value"


class WorkloadPodOperator(KubernetesPodOperator):
    """
    Run ``python -m`` one of our workloads in a hardened pod: non-root, read-only root file system, no API token.

    The result is never the pod's exit or an XCom file but what the workload left in MLflow, marked with the
    attempt of this pod. There is no XCom sidecar; the subclass pushes the result itself.

    A retry after a dead worker adopts the pod of the earlier try only when that pod still lives and does exactly
    the same work for the same task: both are labels, and so is the attempt, which is adopted with it.
    ``durable`` stays off, because it joins any pod of the stored name (airflow#71743).

    :param model: Registered model. (templated)
    :param partition: The partition, ``YYYY-MM-DD`` or ``YYYY-MM-DD_YYYY-MM-DD``. (templated)
    :param data_uri: MLflow artifact URI of the training set, ``runs:/...``. (templated)
    :param data_digest: Digest of that file. (templated)
    :param mlflow_conn_id: Airflow connection of MLflow.
    :param mlflow_tracking_uri: Address of MLflow as pods reach it, where it is not the connection's. (templated)
    :param mlflow_secret: Kubernetes Secret in the pod's namespace with the keys ``username`` and ``password``, or
        ``token``. The pod refers to it; no credential passes through Airflow. (templated)
    :param git_commit: Commit of the code, for the lineage; default: the worker's ``RAGOPS_GIT_COMMIT``. (templated)
    :param active_deadline_seconds: How long the pod may run before its node ends it, hung or not. The wait for a
        node comes on top: ``schedule_timeout_seconds``.
    """

    template_fields: Sequence[str] = (
        *KubernetesPodOperator.template_fields,
        "model", "partition", "data_uri", "data_digest", "mlflow_tracking_uri", "mlflow_secret", "git_commit",
    )  # fmt: skip
    operator_extra_links = (MlflowRunLink(),)
    workload: str

    def __init__(
        self,
        *,
        model: str,
        partition: str,
        data_uri: str,
        data_digest: str,
        mlflow_conn_id: str = MlflowHook.default_conn_name,
        mlflow_tracking_uri: str | None = None,
        mlflow_secret: str | None = None,
        git_commit: str | None = None,
        active_deadline_seconds: int = 6 * 3600,
        **kwargs: Any,
    ) -> None:
        volume, mount = pod_parts.scratch()
        kwargs["volumes"] = [*kwargs.get("volumes", ()), volume]
        kwargs["volume_mounts"] = [*kwargs.get("volume_mounts", ()), mount]
        super().__init__(active_deadline_seconds=active_deadline_seconds, **{**self._pod_defaults(), **kwargs})
        self.model = model
        self.partition = partition
        self.data_uri = data_uri
        self.data_digest = data_digest
        self.mlflow_conn_id = mlflow_conn_id
        self.mlflow_tracking_uri = mlflow_tracking_uri
        self.mlflow_secret = mlflow_secret
        self.git_commit = git_commit
        self.attempt = ""
        self.killed = False
        self.last_seen: k8s.V1Pod | None = None

    @staticmethod
    def _pod_defaults() -> dict[str, Any]:
        return {
            "durable": False,
            "deferrable": False,
            "do_xcom_push": False,
            "get_logs": True,
            # A pending pod that is kept after a timeout would take a GPU later, with nobody waiting for it.
            "on_finish_action": "delete_pod",
            "log_events_on_failure": True,
            "log_pod_spec_on_failure": False,
            "termination_message_policy": "FallbackToLogsOnError",
            "automount_service_account_token": False,
            "security_context": pod_parts.pod_security(),
            "container_security_context": pod_parts.container_security(),
        }

    @cached_property
    def pod_manager(self) -> PhasePodManager:
        return PhasePodManager(kube_client=self.client, callbacks=self.callbacks)

    @cached_property
    def mlflow(self) -> MlflowHook:
        return MlflowHook(self.mlflow_conn_id)

    @property
    def partition_key(self) -> str:
        """The one text of the partition after rendering: the pod reads the same.

        :raises PartitionError: when it is no partition.
        """
        return contract.Partition.parse(self.partition).key

    def prepare(self, context: Context, work: str, arguments: list[str]) -> None:
        """Complete the pod's description after rendering.

        :param work: Digest of everything that the result depends on.
        :param arguments: Command line of the workload.
        """
        self._validate()
        self.attempt = str(uuid4())
        ti = context["ti"]
        task = contract.digest(ti.dag_id, context["run_id"], ti.task_id, str(ti.map_index))
        self.labels = {
            **(self.labels or {}),
            contract.LABEL_PARTITION: self.partition_key,
            contract.LABEL_TASK: task,
            contract.LABEL_WORK: work,
            contract.LABEL_ATTEMPT: self.attempt,
        }
        self.cmds = self.cmds or ["python", "-m", self.workload]
        self.arguments = self.arguments or arguments
        self._adopt()
        self.env_vars = [*(self.env_vars or []), *self._environment()]

    def run_pod(self, context: Context) -> PodState:
        """Run the pod to its end and say how it ended; its result is for the caller to find in MLflow.

        :raises TrainingError: when the pod failed.
        :raises UnreachableError: when the cluster did not answer.
        """
        try:
            super().execute(context)
        except (AirflowException, ApiException, HTTPError) as error:
            raise self._failure(error) from error
        if self.killed:
            raise WorkloadFailedError(
                self._subject, expected="to run to its end", seen="the task was killed and the pod deleted",
                action="Clear the task to run it again.",
            )
        return self._state("")

    def post_complete_action(self, *, pod: k8s.V1Pod, **kwargs: Any) -> None:
        """Look at the pod once more before the base class deletes it: its last state is the evidence."""
        if self.pod is not None:
            try:
                self.last_seen = self.pod_manager.read_pod(self.pod)
            except (ApiException, HTTPError) as error:
                self.log.warning("%s can't be read any more: %s", self._subject, error)
        super().post_complete_action(pod=pod, **kwargs)

    def on_kill(self) -> None:
        self.killed = True
        super().on_kill()

    def no_proof(self, state: PodState, *, expected: str, seen: str) -> TrainingError:
        """The error for a pod that ended well and left nothing that proves it."""
        return TrainingError(
            state.subject, expected=expected, seen=f"{pod_failure.ending(state)}, but {seen}",
            action=f"The image must run {self.workload} to its end: check the image, its command and the log "
            "above, then clear the task.",
        )

    def _validate(self) -> None:
        for name in ("model", "data_uri", "data_digest", "image"):
            rendered.required(name, getattr(self, name))
        if self.deferrable:
            raise ConfigurationError(
                f"task {self.task_id}", expected="deferrable=False", seen="deferrable=True",
                action="Remove it: a deferred pod that is gone counts as a success (airflow#73117).",
            )

    def _environment(self) -> list[k8s.V1EnvVar]:
        address = self.mlflow_tracking_uri or self.mlflow.tracking_uri
        if urlsplit(address).username is not None:
            raise ConfigurationError(
                f"MLflow address of task {self.task_id}", expected="no credentials in it",
                seen="a user name in the address", action="Put them into a Secret and name it in mlflow_secret.",
            )
        values = {
            contract.ENV_TRACKING_URI: address,
            contract.ENV_ATTEMPT: self.attempt,
            contract.ENV_IMAGE: str(self.image),
            contract.ENV_GIT_COMMIT: self.git_commit or os.environ.get(contract.ENV_GIT_COMMIT, ""),
        }
        plain = [k8s.V1EnvVar(name=name, value=value) for name, value in values.items() if value]
        return plain + (pod_parts.mlflow_credentials(self.mlflow_secret) if self.mlflow_secret else [])

    def _adopt(self) -> None:
        """Take over a living pod of an earlier try that does the same work, and its attempt with it."""
        same = ",".join(f"{name}={self.labels[name]}" for name in (contract.LABEL_TASK, contract.LABEL_WORK))
        namespace = self.namespace or self.hook.get_namespace() or "default"
        try:
            found = self.client.list_namespaced_pod(namespace, label_selector=same).items
        except (ApiException, HTTPError) as error:
            raise self._failure(error) from error
        living = [
            pod for pod in found
            if pod.status.phase in ("Pending", "Running") and pod.metadata.deletion_timestamp is None
        ]  # fmt: skip
        if living:
            self.pod = max(living, key=lambda pod: pod.metadata.creation_timestamp)
            self.attempt = self.labels[contract.LABEL_ATTEMPT] = self.pod.metadata.labels[contract.LABEL_ATTEMPT]
            self.log.info("adopting %s, which an earlier try started for the same work", self._subject)

    def _failure(self, error: Exception) -> RagopsError:
        if isinstance(error, HTTPError) or (self.pod is None and isinstance(error, ApiException)):
            host = self.client.api_client.configuration.host
            return pod_failure.explain_api(self._subject, f"{host} (connection {self.kubernetes_conn_id!r})", error)
        return pod_failure.explain(self._state(str(error)))

    def _state(self, error: str) -> PodState:
        return PodState(self._subject, self.base_container_name, self.last_seen, error)

    @property
    def _subject(self) -> str:
        name = f"{self.pod.metadata.namespace}/{self.pod.metadata.name}" if self.pod else f"of task {self.task_id}"
        return f"pod {name} (attempt {self.attempt})"
