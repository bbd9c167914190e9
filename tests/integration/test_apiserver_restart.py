"""A real API server that is killed and started again, in the middle of what depends on it."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from demo.cluster import Cluster
from kubernetes import client, config

from airflow_provider_ragops.exceptions import UnreachableError
from airflow_provider_ragops.kube import Kube
from airflow_provider_ragops.locking.configmap import ConfigMapStore
from airflow_provider_ragops.locking.holding import held
from airflow_provider_ragops.locking.lock import Lock
from airflow_provider_ragops.locking.times import LockTimes
from airflow_provider_ragops.rollout.status import State
from tests.apiserver import SpareApiServer

from .tier import TinyTier

pytestmark = [pytest.mark.cluster, pytest.mark.images, pytest.mark.timeout(300)]

# A busy machine may take half a minute to start an API server.
TIMES = LockTimes(lease=150, renew_deadline=120, retry=0.2, wait=200)


@pytest.fixture
def spare(cluster: Cluster, tmp_path: Path) -> Iterator[SpareApiServer]:
    if cluster.kind != "local":
        pytest.skip("starts a second API server on the local node's etcd; this cluster is another")
    made = SpareApiServer(cluster.kubeconfig, cluster.node_ip, tmp_path / "kube-apiserver.log")
    made.start()
    yield made
    made.kill()


@pytest.fixture
def serving(cluster: Cluster, images) -> Iterator[TinyTier]:
    """One replica that serves version 1, in a namespace of its own; asked through the node's own API server."""
    api = config.new_client_from_config(str(cluster.kubeconfig))
    core, namespace = client.CoreV1Api(api), f"restart-{uuid.uuid4().hex[:8]}"
    core.create_namespace({"metadata": {"name": namespace}}, _request_timeout=10)
    tier = TinyTier(api, namespace, images.serving)
    tier.expose()
    tier.arrange()
    yield tier
    core.delete_namespace(namespace, _request_timeout=10)


@pytest.fixture
def aside() -> Iterator[Callable[..., Future[Any]]]:
    """Run something beside the test."""
    with ThreadPoolExecutor(2) as pool:
        yield pool.submit


def test_rollout_outlives_the_api_server(serving: TinyTier, spare: SpareApiServer, aside, evidence) -> None:
    """R12: killed while the new pod starts; what happened meanwhile is read from the server that comes back."""
    serving.hold_back("2")
    kube = Kube(spare.client(), timeout=3)
    followed = aside(serving.roll, "2", updater=serving.updater_by(kube), timeout=200)
    serving.eventually(lambda: any(pod.version == "2" for pod in serving.updater.pods(serving.updater.read())))
    spare.kill()
    serving.let_on("2")
    serving.eventually(lambda: bool(serving.names("2")) and not serving.names("1"))
    assert not followed.done()
    spare.start()
    progress = followed.result(timeout=120)
    assert progress.state is State.DONE, progress.reason
    evidence["faults"] += 1


def locked(serving: TinyTier, api: Any, holder: str) -> Lock:
    return Lock(ConfigMapStore(Kube(api, timeout=3), serving.namespace, "the-lock"), holder, "a test", TIMES)


def test_waiter_outlives_the_api_server(serving: TinyTier, spare: SpareApiServer, aside, evidence, caplog) -> None:
    """R12: freed while the waiter's server was away: seen when it is back, without waiting for a lease to end."""
    caplog.set_level("INFO")
    first = locked(serving, serving.api, "first")
    first.acquire()
    waiter = locked(serving, spare.client(), "second")
    token = aside(waiter.acquire)
    serving.eventually(lambda: "waiting: held by 'first" in caplog.text)
    spare.kill()
    first.release()
    assert not token.done()
    spare.start()
    assert token.result(timeout=TIMES.lease / 2) == 2
    waiter.release()
    evidence["faults"] += 1


def test_holder_outlives_the_api_server(serving: TinyTier, spare: SpareApiServer, evidence) -> None:
    """R12: within its deadline a holder without an API server stays the holder, and renews when it is back."""
    with held(locked(serving, spare.client(), "first")) as lock:
        until = lock.valid_until
        spare.kill()
        with pytest.raises(UnreachableError):
            lock.renew()
        lock.check()
        spare.start()
        lock.renew()
        assert lock.valid_until > until
    assert locked(serving, serving.api, "next").acquire() == 2
    evidence["faults"] += 1
