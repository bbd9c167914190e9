"""Why a workload's pod failed, told from its last known state (pure). Some causes pass by themselves, some don't."""

from __future__ import annotations

from dataclasses import dataclass

from kubernetes.client import models as k8s

from airflow_provider_ragops.contract import EXIT_REFUSED, EXIT_USAGE
from airflow_provider_ragops.exceptions import (
    ConfigurationError,
    RagopsError,
    TrainingError,
    UnreachableError,
    WorkloadFailedError,
)

_IMAGE_REASONS = frozenset({"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"})
_OUT_OF_MEMORY = "OOMKilled"
_DEADLINE = "DeadlineExceeded"
_SIGNALLED = 128  # exit codes above name the signal that ended the process
_PASSING_STATUS = (409, 429)
_LONGEST = 500


@dataclass(frozen=True)
class PodState:
    """What the API server said about the pod last: ``pod`` is None when it is gone."""

    subject: str
    container: str
    pod: k8s.V1Pod | None
    error: str = ""


def explain(state: PodState) -> TrainingError:
    """Name the cause and the next step; the class says whether a retry makes sense."""
    if state.pod is None or state.pod.status is None:
        return _gone(state)
    return _out_of_time(state, state.pod) or _never_started(state, state.pod) or _ended(state, state.pod)


def explain_api(subject: str, where: str, error: Exception) -> RagopsError:
    """Name why the API server did not do what was asked: it refused, or it did not answer."""
    status = getattr(error, "status", None)
    if status and 400 <= status < 500 and status not in _PASSING_STATUS:
        return ConfigurationError(
            subject, expected=f"to be accepted by the Kubernetes API at {where}",
            seen=f"HTTP {status}: {getattr(error, 'body', None) or error}"[:_LONGEST],
            action="Correct the pod's settings, the namespace or the permissions of the connection.",
        )
    return UnreachableError(
        f"Kubernetes API at {where}", expected="an answer", seen=str(error)[:_LONGEST],
        action="Check that the cluster runs, and the address in the connection.",
    )


def _gone(state: PodState) -> TrainingError:
    return WorkloadFailedError(
        state.subject, expected="the pod until its end",
        seen=f"it was deleted, preempted or lost with its node ({state.error})"[:_LONGEST],
        action="See the events of the namespace; a retry starts a new pod.",
    )


def _out_of_time(state: PodState, pod: k8s.V1Pod) -> TrainingError | None:
    """Permanent, as a Job's deadline is: the next try would most likely hold its node as long, for nothing."""
    if pod.status.reason != _DEADLINE:
        return None
    limit = pod.spec.active_deadline_seconds if pod.spec else None
    return TrainingError(
        state.subject, expected=f"its end within active_deadline_seconds={limit}",
        seen=f"{_DEADLINE}: {pod.status.message or 'no message'}"[:_LONGEST],
        action="See in the log above where it hung; else raise active_deadline_seconds (and execution_timeout).",
    )


def _never_started(state: PodState, pod: k8s.V1Pod) -> TrainingError | None:
    if pod.status.phase != "Pending":  # a kubelet that has removed a container reports it as waiting again
        return None
    if waiting := _waiting(state, pod):
        seen = f"{waiting.reason}: {waiting.message or 'no message'}"[:_LONGEST]
        if waiting.reason in _IMAGE_REASONS:
            return TrainingError(
                state.subject, expected=f"an image that the node can pull, {_image(state, pod)!r}", seen=seen,
                action="Correct the image's name, push or load it, or add image_pull_secrets.",
            )
        return WorkloadFailedError(
            state.subject, expected="a started container", seen=seen,
            action="See the pod's events above; raise startup_timeout_seconds where the node is only slow.",
        )
    for condition in pod.status.conditions or []:
        if condition.type == "PodScheduled" and condition.status == "False":
            return WorkloadFailedError(
                state.subject, expected="a node with room within schedule_timeout_seconds",
                seen=f"{condition.reason}: {condition.message}"[:_LONGEST],
                action="Free or add a node, ask for less (gpus, cpu, memory), or raise schedule_timeout_seconds.",
            )
    return None


def _ended(state: PodState, pod: k8s.V1Pod) -> TrainingError:
    ended = _terminated(state, pod)
    if ended is None and pod.metadata.deletion_timestamp is not None:
        return _gone(state)
    if ended is None:
        return WorkloadFailedError(
            state.subject, expected="a pod that runs to its end",
            seen=f"phase {pod.status.phase}, {pod.status.reason or 'no reason'}: {state.error}"[:_LONGEST],
            action="See the pod's events above; a retry starts a new pod.",
        )
    if ended.reason == _OUT_OF_MEMORY:
        return TrainingError(
            state.subject, expected="to fit into its memory limit", seen=ending(state),
            action="Raise the memory limit or lower batch_size.",
        )
    if ended.exit_code in (EXIT_USAGE, EXIT_REFUSED):
        return TrainingError(
            state.subject, expected="arguments and data that can be used", seen=ending(state),
            action="Correct what the last line names: a retry can't help.",
        )
    return WorkloadFailedError(
        state.subject, expected="exit code 0", seen=ending(state),
        action="It was ended from outside; a retry starts a new pod." if (ended.exit_code or 0) > _SIGNALLED
        else "Read the traceback in the log above.",
    )


def ending(state: PodState) -> str:
    """Say in one line how the container ended."""
    ended = state.pod and _terminated(state, state.pod)
    if not ended:
        return "no ended container"
    lines = (ended.message or "").strip().splitlines()
    last = f"; last line: {lines[-1]}" if lines else ""
    return f"exit code {ended.exit_code} ({ended.reason or 'no reason'}){last}"[:_LONGEST]


def _status(state: PodState, pod: k8s.V1Pod) -> k8s.V1ContainerState | None:
    statuses = (pod.status.container_statuses if pod.status else None) or []
    return next((each.state for each in statuses if each.name == state.container), None)


def _waiting(state: PodState, pod: k8s.V1Pod) -> k8s.V1ContainerStateWaiting | None:
    found = _status(state, pod)
    return found.waiting if found else None


def _terminated(state: PodState, pod: k8s.V1Pod) -> k8s.V1ContainerStateTerminated | None:
    found = _status(state, pod)
    return found.terminated if found else None


def _image(state: PodState, pod: k8s.V1Pod) -> str:
    return next((each.image for each in pod.spec.containers if each.name == state.container), "") if pod.spec else ""
