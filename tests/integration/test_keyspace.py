"""The check that a release makes while two versions run side by side, on a real server and a real cluster."""

from __future__ import annotations

import json
import logging

import pytest
import redis
from demo import services

from airflow_provider_ragops.cache.inventory import counts
from airflow_provider_ragops.cache.keyspace import key_space_fault
from airflow_provider_ragops.contract import decompose_key
from airflow_provider_ragops.exceptions import UnreachableError
from airflow_provider_ragops.hooks.redis import redis_client
from tests.key_space import connect, fill, mark, write
from tests.server import Server
from tests.valkey_cluster import ValkeyCluster


@pytest.fixture
def client(redis_server: Server) -> redis.Redis:
    """A database of this module's own, empty."""
    client = connect(redis_server.url, 14)
    client.flushdb()
    return client


def side_by_side(client: redis.Redis | redis.RedisCluster, prefix: str = "p:") -> None:
    for version in ("1", "2"):
        fill(client, prefix, version, customers=("c0", "*", "customer_id=1", "v1:"))


def test_two_versions_apart_are_good(client: redis.Redis, caplog: pytest.LogCaptureFixture) -> None:
    """Two marked versions, other applications' keys and other prefixes beside them: nothing is wrong."""
    side_by_side(client)
    write(client, ["q:rag_decompose:customer_id=1", "rag_decompose:customer_id=1", "p:rag_feedback:7", "p:rag_stores"])
    client.hset(b"p:\xff\x02user_id", mapping={b"\xff": b"\x01"})
    with caplog.at_level(logging.INFO):
        assert key_space_fault(client, "p:", "M", "1", "2", runs={"1": "run-1", "2": "run-2"}) == ""
    assert "key space under 'p:': all keys" in caplog.messages


def test_keys_are_counted_by_version(client: redis.Redis) -> None:
    """Each version's, marker included; keys of other prefixes, and those without a version, are nobody's."""
    side_by_side(client)
    fill(client, "p:", "12", customers=("a",))
    write(client, ["q:rag_store:v1:a", "p:rag_decompose:customer_id=1", "p:rag_feedback:v1:7"])
    assert counts(client, "p:") == {"1": 9, "2": 9, "12": 3}


def test_a_first_release_has_one_marker(client: redis.Redis) -> None:
    """Without an old version only the new one is judged; a model that writes nothing has no marker and no fault."""
    assert key_space_fault(client, "p:", "M", "", "1") == ""
    fill(client, "p:", "1", model="Other")
    assert "marker p:rag_meta:v1 names Other, not M" in key_space_fault(client, "p:", "M", "", "1")


def test_another_models_marker_is_named(client: redis.Redis) -> None:
    """Two models on one Redis under one prefix: the fault names the marker and both models."""
    side_by_side(client)
    mark(client, "p:", "2", model="Other")
    assert key_space_fault(client, "p:", "M", "1", "2") == (
        "marker p:rag_meta:v2 names Other, not M: two models share the prefix"
    )


def test_an_older_models_marker_is_stale(client: redis.Redis) -> None:
    """M7: version 1 of a recreated model beside keys of the first v1: the marker's run is not the registry's."""
    fill(client, "p:", "1", run="old")
    assert key_space_fault(client, "p:", "M", "", "1", runs={"1": "new"}) == (
        "marker p:rag_meta:v1 names run old, but version 1 is of run new: its keys are stale"
    )


@pytest.mark.parametrize(
    "name",
    ["rag_decompose:customer_id=jane.doe", "rag_decompose:v{version}:jane.doe", "rag_store", "rag_meta:v1:jane.doe"],
)
def test_a_key_without_a_version_is_a_fault(client: redis.Redis, name: str) -> None:
    """A legacy key, or a placeholder that nobody replaced, under our prefix is found among versioned ones."""
    side_by_side(client)
    write(client, [f"p:{name}"])
    fault = key_space_fault(client, "p:", "M", "1", "2")
    assert "has no version where it must" in fault
    assert "jane" not in fault


def test_a_large_database_is_sampled(client: redis.Redis, caplog: pytest.LogCaptureFixture) -> None:
    """The look is bounded by the number of keys that the server walks over, whoever's they are, and says so."""
    side_by_side(client)
    with client.pipeline(transaction=False) as pipeline:
        for number in range(30_000):
            pipeline.set(f"feast:{number}", "x")
        pipeline.execute()
    client.config_resetstat()
    with caplog.at_level(logging.INFO):
        assert key_space_fault(client, "p:", "M", "1", "2", limit=5000) == ""
    assert client.info("commandstats")["cmdstat_scan"]["calls"] == 5
    assert "key space under 'p:': sampled, about 5000 keys" in caplog.messages


def test_a_sample_of_a_cluster_is_of_all_primaries(
    redis_cluster: ValkeyCluster, cluster_client: redis.RedisCluster,
) -> None:
    """C10: on a cluster the primaries take turns, so that a bounded look is at all of them; a fault on any is found."""
    side_by_side(cluster_client)
    for number in range(20):
        write(cluster_client, [key := f"p:rag_decompose:customer_id={number}"])
        assert "has no version" in key_space_fault(cluster_client, "p:", "M", "1", "2")
        cluster_client.unlink(key)
    write(cluster_client, [f"feast:{number}" for number in range(9000)])
    for node in redis_cluster.nodes():
        node.config_resetstat()
    assert key_space_fault(cluster_client, "p:", "M", "1", "2", limit=3000) == ""
    assert [node.info("commandstats")["cmdstat_scan"]["calls"] for node in redis_cluster.nodes()] == [1, 1, 1]


def test_an_unreachable_server_is_no_fault_of_the_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without an answer there is no verdict: UnreachableError, which names the address."""
    port = services.free_port("127.0.0.1")
    connection = {"conn_type": "redis", "host": "127.0.0.1", "port": port}
    monkeypatch.setenv("AIRFLOW_CONN_REDIS_DEFAULT", json.dumps(connection))
    with pytest.raises(UnreachableError, match=f"Redis at 127.0.0.1:{port}"), redis_client("redis_default") as client:
        key_space_fault(client, "p:", "M", "1", "2")


def test_versions_share_no_key(client: redis.Redis) -> None:
    """No key of one version begins like another's, so that clean-up of either leaves the other whole."""
    first, second = fill(client, "p:", "1"), fill(client, "p:", "11")
    assert not first & second
    assert not decompose_key("p:", "11", "c", "q").startswith("p:rag_decompose:v1:")
