"""The serving tier's hook: a Kubernetes connection in, lock and updater of a serving target out."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cached_property

from airflow.providers.cncf.kubernetes.hooks.kubernetes import KubernetesHook
from airflow.sdk import BaseHook

from airflow_provider_ragops.contract import ServingTarget
from airflow_provider_ragops.kube import Kube
from airflow_provider_ragops.locking.configmap import ConfigMapStore
from airflow_provider_ragops.locking.lock import Lock
from airflow_provider_ragops.locking.times import LockTimes
from airflow_provider_ragops.rollout.updater import Updater


class ServingHook(BaseHook):
    """Reach serving targets through Airflow's own Kubernetes connection (type ``kubernetes``).

    :param kubernetes_conn_id: the connection; its account needs the Role ``ragops-releaser`` of the chart.
    :param request_timeout: seconds for one call to the API server, proxied answers of pods included.
    """

    conn_name_attr = "kubernetes_conn_id"
    default_conn_name = "kubernetes_default"

    def __init__(self, kubernetes_conn_id: str = default_conn_name, request_timeout: float = 10.0) -> None:
        super().__init__()
        self.kubernetes_conn_id = kubernetes_conn_id
        self.request_timeout = request_timeout

    @cached_property
    def kube(self) -> Kube:
        return Kube(KubernetesHook(conn_id=self.kubernetes_conn_id).get_conn(), self.request_timeout)

    def lock(
        self, target: ServingTarget, holder: str, purpose: str, times: LockTimes | None = None, *,
        sleep: Callable[[float], None] = time.sleep,
    ) -> Lock:
        """:param sleep: waits between two tries; it may raise to stop the waiting."""
        return Lock(self.lock_store(target), holder, purpose, times, sleep=sleep)

    def lock_store(self, target: ServingTarget) -> ConfigMapStore:
        return ConfigMapStore(self.kube, target.namespace, target.lock_name)

    def updater(self, target: ServingTarget) -> Updater:
        return Updater(self.kube, target)
