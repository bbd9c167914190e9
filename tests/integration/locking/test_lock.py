"""The lock on a real API server: what a fake could get wrong."""

from __future__ import annotations

import threading
import time
from collections import Counter

import pytest
from kubernetes import client

from airflow_provider_ragops.exceptions import (
    ClusterError,
    ConflictError,
    LockHeldError,
    LockLostError,
    UnreachableError,
)
from airflow_provider_ragops.kube import Kube
from airflow_provider_ragops.locking.holding import held
from airflow_provider_ragops.locking.record import NEVER_HELD
from airflow_provider_ragops.locking.times import LockTimes
from tests.integration.locking.conftest import STEADY, Place

pytestmark = pytest.mark.cluster


def test_two_holders_take_turns(place: Place) -> None:
    """While one holds and renews, another waits; after the release it gets a larger token."""
    with held(place.lock(times=LockTimes(lease=3, renew_deadline=2, retry=0.2, wait=20))) as first:
        with pytest.raises(LockHeldError, match="held by 'a/"):
            place.lock("b", LockTimes(lease=3, renew_deadline=2, retry=0.2, wait=4)).acquire()
        token = first.token
        first.check()
    assert place.lock("b").acquire() == token + 1


@pytest.mark.parametrize("exists", [False, True])
def test_uncontended_hold_costs_two_mutating_calls(place: Place, exists: bool) -> None:
    """Acquire and release send one create or replace and one replace, and two reads; nothing else."""
    if exists:
        place.store().write(NEVER_HELD, None)
    kube = place.kube()
    lock = place.lock(kube=kube)
    lock.acquire()
    lock.release()
    writes = {"PUT": 2} if exists else {"POST": 1, "PUT": 1}
    assert kube.calls == Counter({"GET": 2} | writes)


def test_dead_holder_is_succeeded(place: Place) -> None:
    """L6: a holder that never renews loses the lock after its lease, not before and not much later."""
    place.lock().acquire()
    began = time.monotonic()
    assert place.lock("b").acquire() == 2
    assert 2 <= time.monotonic() - began < 4


def test_twenty_creators(place: Place, evidence: Counter[str]) -> None:
    """L10: of twenty that create the lock at once, one succeeds and the others see it held; tokens never repeat."""
    tokens: list[int] = []
    start = threading.Barrier(20)

    def take_turn(number: int) -> None:
        times = LockTimes(lease=9, renew_deadline=6, retry=0.1, wait=60)
        lock = place.lock(f"c{number}", times, place.kube(timeout=3))
        start.wait(timeout=30)
        tokens.append(lock.acquire())
        lock.release()

    threads = [threading.Thread(target=take_turn, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=90)
    assert sorted(tokens) == list(range(1, 21))
    evidence["schedules"] += 20


def test_conflicts_are_told_apart(place: Place) -> None:
    """L10: creating what exists and replacing what has changed are both lost races, never a held lock."""
    store = place.store()
    first = store.write(NEVER_HELD.taken_by("a", 5, "x", "now"), None)
    with pytest.raises(ConflictError, match="already exists"):
        store.write(NEVER_HELD.taken_by("b", 5, "x", "now"), None)
    store.write(first.record.renewed("later"), first)
    with pytest.raises(ConflictError, match="has been modified"):
        store.write(first.record.renewed("too late"), first)


def test_lock_made_anew_is_another_one(place: Place) -> None:
    """L5: a holder whose object was deleted and made anew by another is told so, and changes nothing there."""
    first = place.lock("first")
    first.acquire()
    client.CoreV1Api(place.api).delete_namespaced_config_map("the-lock", place.namespace, _request_timeout=10)
    second = place.lock("second")
    second.acquire()
    before = place.object()
    with pytest.raises(LockLostError, match="second"):
        first.renew()
    first.release()
    assert place.object() == before


def test_foreign_fields_survive(place: Place) -> None:
    """L11: annotations, labels and other keys of the object are kept through a whole hold on a real server."""
    body = {
        "metadata": {"name": "the-lock", "annotations": {"a": "b"}, "labels": {"c": "d"}},
        "data": {"other": "x"}, "binaryData": {"z": "AA=="},
    }
    client.CoreV1Api(place.api).create_namespaced_config_map(place.namespace, body, _request_timeout=10)
    lock = place.lock()
    lock.acquire()
    lock.renew()
    lock.release()
    kept = place.object()
    assert kept["metadata"]["annotations"] == {"a": "b"}
    assert kept["metadata"]["labels"] == {"c": "d"}
    assert kept["data"]["other"] == "x"
    assert kept["binaryData"] == {"z": "AA=="}


def test_immutable_lock_is_refused(place: Place) -> None:
    """L15: an immutable ConfigMap ends in a clear error, not in a loop."""
    body = {"metadata": {"name": "the-lock"}, "immutable": True}
    client.CoreV1Api(place.api).create_namespaced_config_map(place.namespace, body, _request_timeout=10)
    kube = place.kube()
    with pytest.raises(ClusterError, match=r"PUT .*the-lock.*immutable"):
        place.lock(kube=kube).acquire()
    assert kube.calls == {"GET": 1, "PUT": 1}


def test_terminating_namespace_is_named(place: Place) -> None:
    """L15: in a namespace that is being deleted nothing can be created: the error says that, and what to do."""
    core = client.CoreV1Api(place.api)
    guard = {"metadata": {"name": "guard", "finalizers": ["ragops.test/guard"]}}
    core.create_namespaced_config_map(place.namespace, guard, _request_timeout=10)
    core.delete_namespace(place.namespace, _request_timeout=10)
    try:
        kube = place.kube()
        with pytest.raises(ClusterError, match=r"POST .*configmaps.*being terminated.*wait until it is gone"):
            place.lock(kube=kube).acquire()
        assert kube.calls == {"GET": 1, "POST": 1}
    finally:
        core.patch_namespaced_config_map("guard", place.namespace, {"metadata": {"finalizers": None}},
                                         _request_timeout=10)


def test_missing_namespace_is_named(place: Place) -> None:
    """L12: a namespace that does not exist is named at once."""
    lost = Place(place.kubeconfig, place.api, "no-such-namespace")
    with pytest.raises(ClusterError, match=r"no-such-namespace.*404.*Check the namespace"):
        lost.lock().acquire()


def test_role_by_name_is_enough(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    """L12: the chart's rights, get, watch and update on one ConfigMap by its name and create, suffice to wait for the
    lock by a watch; without the right to watch the waiter polls and says so once."""
    for user, verbs in (("watcher", ["get", "watch", "update"]), ("poller", ["get", "update"])):
        _grant(place, user, verbs)
    with held(place.lock(times=STEADY)):
        for user in ("watcher", "poller"):
            api = client.ApiClient(place.api.configuration, "Impersonate-User", user)
            kube = place.kube(api)
            waiter = place.lock(user, LockTimes(lease=2, renew_deadline=1.2, retry=0.3, wait=3), kube)
            with pytest.raises(LockHeldError):
                waiter.acquire()
            said = [record.message for record in caplog.records if "not watched" in record.message]
            assert len(said) == (user == "poller")
    assert all("403" in message and "the-lock" in message for message in said)


def _grant(place: Place, user: str, verbs: list[str]) -> None:
    rbac = client.RbacAuthorizationV1Api(place.api)
    rules = [
        {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["the-lock"], "verbs": verbs},
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create"]},
    ]
    metadata = {"name": user}
    rbac.create_namespaced_role(place.namespace, {"metadata": metadata, "rules": rules}, _request_timeout=10)
    binding = {
        "metadata": metadata, "subjects": [{"kind": "User", "name": user, "apiGroup": "rbac.authorization.k8s.io"}],
        "roleRef": {"kind": "Role", "name": user, "apiGroup": "rbac.authorization.k8s.io"},
    }
    rbac.create_namespaced_role_binding(place.namespace, binding, _request_timeout=10)


def test_missing_right_is_named(place: Place) -> None:
    """L12: 403 fails at once, names verb and object, and says which Role to look at."""
    powerless = client.ApiClient(place.api.configuration, "Impersonate-User", "nobody-special")
    with pytest.raises(ClusterError, match=r"GET /api/v1/namespaces/.*/configmaps/the-lock.*403.*ragops-releaser"):
        place.lock(kube=place.kube(powerless)).acquire()


def test_unreachable_cluster_is_named() -> None:
    """L12: a cluster that does not answer is named with its address, and nobody believes the lock free."""
    configuration = client.Configuration(host="http://127.0.0.1:9")
    with pytest.raises(UnreachableError, match=r"http://127\.0\.0\.1:9.*Check the address"):
        Kube(client.ApiClient(configuration), timeout=2).get("/api/v1/namespaces/x/configmaps/y")
