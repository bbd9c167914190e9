"""The edges of the pod operators in tests: a task instance, and the pod's life as Kubernetes would report it."""

from __future__ import annotations

import json
from datetime import datetime
from types import SimpleNamespace
from typing import Any

from kubernetes.client import models as k8s

KUBERNETES = '{"conn_type": "kubernetes", "extra": {"namespace": "ml-workloads"}}'


class TaskInstance(SimpleNamespace):
    """Keeps XComs as JSON, as Airflow does."""

    def __init__(self) -> None:
        super().__init__(dag_id="churn", task_id="train", map_index=-1, try_number=1, xcoms={})

    def xcom_push(self, key: str, value: Any) -> None:
        self.xcoms[key] = json.loads(json.dumps(value, allow_nan=False))


def context(ti: TaskInstance) -> dict[str, Any]:
    return {"ti": ti, "run_id": "manual__1", "dag": SimpleNamespace(parent_dag=None)}


def link_of(operator: Any) -> str:
    """What the operator's one button opens, as Airflow asks for it when the task has ended."""
    (link,) = operator.operator_extra_links
    return str(link.get_link(operator, ti_key=None))


def pod(
    *, phase: str = "Failed", state: k8s.V1ContainerState | None = None, reason: str | None = None,
    unschedulable: str | None = None, deadline: int | None = None, deleted: datetime | None = None,
) -> k8s.V1Pod:  # fmt: skip
    """A pod with one container ``base`` in that state."""
    statuses = [
        k8s.V1ContainerStatus(name="base", image="i", image_id="", ready=False, restart_count=0, state=state)
    ]
    conditions = [
        k8s.V1PodCondition(type="PodScheduled", status="False", reason="Unschedulable", message=unschedulable)
    ]
    return k8s.V1Pod(
        metadata=k8s.V1ObjectMeta(name="train-1", namespace="ml-workloads", deletion_timestamp=deleted),
        spec=k8s.V1PodSpec(
            containers=[k8s.V1Container(name="base", image="registry/training:1")], active_deadline_seconds=deadline
        ),
        status=k8s.V1PodStatus(
            phase=phase, reason=reason, container_statuses=statuses if state else None,
            conditions=conditions if unschedulable else None,
        ),
    )


def terminated(code: int, reason: str = "Error", message: str = "") -> k8s.V1ContainerState:
    ended = k8s.V1ContainerStateTerminated(exit_code=code, reason=reason, message=message)
    return k8s.V1ContainerState(terminated=ended)


def running() -> k8s.V1ContainerState:
    return k8s.V1ContainerState(running=k8s.V1ContainerStateRunning())


def waiting(reason: str, message: str = "") -> k8s.V1ContainerState:
    return k8s.V1ContainerState(waiting=k8s.V1ContainerStateWaiting(reason=reason, message=message))
