"""Watches a pod's containers by the pod's phase first, so that a pod that is over is not waited for."""

from __future__ import annotations

from airflow.providers.cncf.kubernetes.utils.pod_manager import PodManager, PodPhase
from kubernetes.client import models as k8s


class PhasePodManager(PodManager):
    """A pod in a final phase has no running container, whatever its container statuses say.

    A kubelet of 1.20 was seen to leave them at ``running`` in a pod that it ended by its deadline; the base class
    would follow the logs of such a container for ever.
    """

    def container_is_running(self, pod: k8s.V1Pod, container_name: str) -> bool:
        over = self.read_pod(pod).status.phase in PodPhase.terminal_states
        return not over and bool(super().container_is_running(pod, container_name))
