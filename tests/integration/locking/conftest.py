"""A namespace of its own on a real API server, and locks in it."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from demo.cluster import Cluster
from kubernetes import client, config

from airflow_provider_ragops.kube import Kube
from airflow_provider_ragops.locking.configmap import ConfigMapStore
from airflow_provider_ragops.locking.lock import Lock
from airflow_provider_ragops.locking.record import LockRecord
from airflow_provider_ragops.locking.times import LockTimes
from tests.fakes.proxy import FaultyProxy

# For what ends by itself, and for what must be held while a busy machine stands still for a moment.
TIMES = LockTimes(lease=2, renew_deadline=1.2, retry=0.2, wait=20)
STEADY = LockTimes(lease=9, renew_deadline=6, retry=0.2, wait=30)


@dataclass(frozen=True)
class Place:
    """Where the lock lies. ``api`` has all rights."""

    kubeconfig: Path
    api: client.ApiClient
    namespace: str

    @property
    def path(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/configmaps/the-lock"

    def kube(self, api: client.ApiClient | None = None, timeout: float = 0.6) -> Kube:
        return Kube(api or self.api, timeout)

    def store(self, kube: Kube | None = None) -> ConfigMapStore:
        return ConfigMapStore(kube or self.kube(), self.namespace, "the-lock")

    def lock(self, holder: str = "a", times: LockTimes = TIMES, kube: Kube | None = None) -> Lock:
        return Lock(self.store(kube), holder, "a test", times)

    def object(self) -> dict[str, Any]:
        found = self.kube(timeout=10).get(self.path)
        assert found
        return found

    def record(self) -> LockRecord:
        found = self.store().read()
        assert found
        return found.record


@pytest.fixture
def place(cluster: Cluster) -> Iterator[Place]:
    api = config.new_client_from_config(str(cluster.kubeconfig))
    name = f"lock-{uuid.uuid4().hex[:8]}"
    core = client.CoreV1Api(api)
    core.create_namespace({"metadata": {"name": name}}, _request_timeout=10)
    yield Place(cluster.kubeconfig, api, name)
    core.delete_namespace(name, _request_timeout=10)


@pytest.fixture
def proxy(place: Place) -> Iterator[FaultyProxy]:
    with FaultyProxy(place.kubeconfig) as proxy:
        yield proxy
