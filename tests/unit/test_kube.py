"""Calls on a cluster: each is sent once, has a deadline, and a fault ends in one of three errors."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from airflow_provider_ragops.exceptions import ClusterError, ConflictError, UnreachableError
from airflow_provider_ragops.kube import Kube
from tests.fakes.proxy import FaultyProxy

COLLECTION = "/api/v1/namespaces/ns/configmaps"
PATH = f"{COLLECTION}/x"
BODY = {"metadata": {"name": "x", "resourceVersion": "7"}}
CALLS: dict[str, Callable[[Kube], Any]] = {
    "GET": lambda kube: kube.get(PATH),
    "POST": lambda kube: kube.create(COLLECTION, BODY),
    "PUT": lambda kube: kube.replace(PATH, BODY),
}


@pytest.fixture
def proxy() -> Iterator[FaultyProxy]:
    with FaultyProxy("http://127.0.0.1:9") as found:
        yield found


def create_kube(proxy: FaultyProxy) -> Kube:
    return Kube(proxy.client(), timeout=0.5)


@pytest.mark.parametrize("verb", CALLS)
@pytest.mark.parametrize("status", [401, 403, 422])
def test_refusals_are_final(proxy: FaultyProxy, verb: str, status: int) -> None:
    """L12: what no waiting cures names verb and object, and is no missing answer; it was sent once."""
    rule = proxy.fail(verb, ".*", times=None, status=status, body={"message": "no"})
    with pytest.raises(ClusterError, match=rf"Kubernetes {verb} {COLLECTION}.*saw {status} no"):
        CALLS[verb](create_kube(proxy))
    assert rule.hits == 1


@pytest.mark.parametrize("verb", CALLS)
@pytest.mark.parametrize("status", [429, 500, 503])
def test_what_may_pass_says_so(proxy: FaultyProxy, verb: str, status: int) -> None:
    """L12: the caller decides whether to try again, and knows how long the server asks to be left alone."""
    rule = proxy.fail(verb, ".*", times=None, status=status, headers={"Retry-After": "3"}, body="no JSON")
    with pytest.raises(UnreachableError) as caught:
        CALLS[verb](create_kube(proxy))
    assert (rule.hits, caught.value.retry_after) == (1, 3.0)


@pytest.mark.parametrize("verb", CALLS)
@pytest.mark.parametrize("how", ["cut", "hang"])
def test_a_lost_reply_is_not_sent_again(proxy: FaultyProxy, verb: str, how: str) -> None:
    """L3, L7: a request that was cut or hangs ends within its deadline, and its repeat is the caller's business."""
    rule = proxy.fail(verb, ".*", times=None, **{how: True})
    began = time.monotonic()
    with pytest.raises(UnreachableError):
        CALLS[verb](create_kube(proxy))
    assert rule.hits == 1
    assert time.monotonic() - began < 3


@pytest.mark.parametrize(("verb", "status"), [("POST", 409), ("PUT", 409), ("PUT", 404)])
def test_lost_races_are_conflicts(proxy: FaultyProxy, verb: str, status: int) -> None:
    """L10: an object that exists already, changed, or went: someone else was faster."""
    proxy.fail(verb, ".*", status=status, body={"message": "not as you read it"})
    with pytest.raises(ConflictError):
        CALLS[verb](create_kube(proxy))


def test_replace_without_a_resource_version_is_not_sent(proxy: FaultyProxy) -> None:
    """L2: it would be no compare-and-swap: the API server takes it for "whatever is there"."""
    rule = proxy.fail("PUT", ".*", status=200, body={})
    with pytest.raises(ValueError, match="resourceVersion"):
        create_kube(proxy).replace(PATH, {"metadata": {"name": "x"}})
    assert rule.hits == 0


def test_expired_watch_only_ends(proxy: FaultyProxy) -> None:
    """R12: 410 Gone, as a status or in the stream, means: read again."""
    proxy.fail("GET", "watch=true", status=410, body={"message": "too old"})
    assert list(create_kube(proxy).watch(COLLECTION, "x", "7", 1)) == []
    proxy.fail("GET", "watch=true", gone=True)
    assert list(create_kube(proxy).watch(COLLECTION, "x", "7", 1)) == []
