"""The lock on a real API server: what a fake could get wrong."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator

import pytest
from kubernetes import client, config

from airflow_provider_ragops.exceptions import ClusterError, ConflictError, LockHeldError, UnreachableError
from airflow_provider_ragops.kube import Kube
from airflow_provider_ragops.locking.configmap import ConfigMapStore
from airflow_provider_ragops.locking.lock import Lock, LockTimes, held
from airflow_provider_ragops.locking.record import NEVER_HELD

pytestmark = pytest.mark.cluster

TIMES = LockTimes(lease=3, renew_deadline=2, retry=0.2, wait=20)


@pytest.fixture
def api(cluster) -> client.ApiClient:
    return config.new_client_from_config(str(cluster.kubeconfig))


@pytest.fixture
def namespace(api: client.ApiClient) -> Iterator[str]:
    name = f"lock-{uuid.uuid4().hex[:8]}"
    core = client.CoreV1Api(api)
    core.create_namespace({"metadata": {"name": name}}, _request_timeout=10)
    yield name
    core.delete_namespace(name, _request_timeout=10)


def make_lock(api: client.ApiClient, namespace: str, holder: str = "a", times: LockTimes = TIMES) -> Lock:
    return Lock(ConfigMapStore(Kube(api), namespace, "the-lock"), holder, "a test", times)


def test_two_holders_take_turns(api: client.ApiClient, namespace: str) -> None:
    """While one holds and renews, another waits; after the release it gets a larger token."""
    with held(make_lock(api, namespace)) as first:
        with pytest.raises(LockHeldError, match="held by 'a/"):
            make_lock(api, namespace, "b", LockTimes(lease=3, renew_deadline=2, retry=0.2, wait=4)).acquire()
        token = first.token
        first.check()
    assert make_lock(api, namespace, "b").acquire() == token + 1


def test_dead_holder_is_succeeded(api: client.ApiClient, namespace: str) -> None:
    """A holder that never renews loses the lock after its lease."""
    make_lock(api, namespace).acquire()
    assert make_lock(api, namespace, "b").acquire() == 2


def test_twenty_creators(api: client.ApiClient, namespace: str, evidence) -> None:
    """L10: of twenty that create the lock at once, one succeeds and the others see it held; tokens never repeat."""
    tokens: list[int] = []

    def take_turn(number: int) -> None:
        times = LockTimes(lease=5, renew_deadline=4, retry=0.1, wait=60)
        lock = make_lock(api, namespace, f"c{number}", times)
        tokens.append(lock.acquire())
        lock.release()

    threads = [threading.Thread(target=take_turn, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=90)
    assert sorted(tokens) == list(range(1, 21))
    evidence["schedules"] += 20


def test_conflicts_are_told_apart(api: client.ApiClient, namespace: str) -> None:
    """L10: creating what exists and replacing what has changed are both lost races, never a held lock."""
    store = ConfigMapStore(Kube(api), namespace, "the-lock")
    first = store.write(NEVER_HELD.taken_by("a", 5, "x", "now"), None)
    with pytest.raises(ConflictError):
        store.write(NEVER_HELD.taken_by("b", 5, "x", "now"), None)
    store.write(first.record.renewed("later"), first)
    with pytest.raises(ConflictError):
        store.write(first.record.renewed("too late"), first)


def test_immutable_lock_is_refused(api: client.ApiClient, namespace: str) -> None:
    """L15: an immutable ConfigMap ends in a clear error, not in a loop."""
    body = {"metadata": {"name": "the-lock"}, "immutable": True}
    client.CoreV1Api(api).create_namespaced_config_map(namespace, body, _request_timeout=10)
    with pytest.raises(ClusterError, match="immutable"):
        make_lock(api, namespace).acquire()


def test_missing_right_is_named(api: client.ApiClient, namespace: str, cluster) -> None:
    """L12: 403 fails at once, names verb and object, and says which Role to look at."""
    powerless = client.ApiClient(api.configuration, "Impersonate-User", "nobody-special")
    with pytest.raises(ClusterError, match=r"GET /api/v1/namespaces/.*/configmaps/the-lock.*403.*ragops-releaser"):
        make_lock(powerless, namespace).acquire()


def test_unreachable_cluster_is_named() -> None:
    """A cluster that does not answer is named with its address, and nobody believes the lock free."""
    configuration = client.Configuration(host="http://127.0.0.1:9")
    with pytest.raises(UnreachableError, match=r"http://127\.0\.0\.1:9.*Check the address"):
        Kube(client.ApiClient(configuration), timeout=2).get("/api/v1/namespaces/x/configmaps/y")
