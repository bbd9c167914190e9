"""Clean-up and verification on a real cluster: three primaries, keys on every slot, no command across slots."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import redis
from redis.crc import key_slot

from airflow_provider_ragops.cache.cleanup import CleanupReport, clean_stale, clean_version, clean_versions
from airflow_provider_ragops.cache.inventory import leftovers, stale, unmarked
from airflow_provider_ragops.cache.keyspace import key_space_fault
from airflow_provider_ragops.contract import decompose_key, marker_key
from tests.key_space import fill, keys_of, names, write
from tests.valkey_cluster import SLOTS, ValkeyCluster

CUSTOMERS = [f"customer-{number}" for number in range(1000)]
KEEP = {"2": "champion alias"}


@contextmanager
def errors_counted(cluster: ValkeyCluster) -> Iterator[Counter[str]]:
    """What the nodes answered with an error meanwhile, by kind."""
    for node in cluster.nodes():
        node.config_resetstat()
    found: Counter[str] = Counter()
    yield found
    for node in cluster.nodes():
        found.update({name: stats["count"] for name, stats in node.info("errorstats").items()})


@pytest.mark.parametrize("tagged", [False, True], ids=["plain", "hash-tagged"])
def test_a_thousand_customers_on_three_primaries(
    redis_cluster: ValkeyCluster, cluster_client: redis.RedisCluster, evidence: Counter[str], *, tagged: bool,
) -> None:
    """C10: customers are spread over slots and primaries; every path works on all of them and none crosses slots.

    The same with the customer as hash tag, where each customer's keys share a slot.
    """
    customers = [f"{{{customer}}}" if tagged else customer for customer in CUSTOMERS]
    with errors_counted(redis_cluster) as errors:
        doomed = fill(cluster_client, "p:", "1", run="r1", customers=customers)
        kept = fill(cluster_client, "p:", "2", run="r2", customers=customers)
        sizes = [node.dbsize() for node in redis_cluster.nodes()]
        assert key_space_fault(cluster_client, "p:", "M", "1", "2", runs={"1": "r1", "2": "r2"}) == ""
        assert leftovers(cluster_client, "p:", "M", KEEP) == {"1": len(doomed)}
        assert stale(cluster_client, "p:", "M", {"1": "new", "2": "r2"}) == {"1": "r1"}
        assert unmarked(cluster_client, "p:") == {}
        assert clean_versions(cluster_client, "p:", "M", KEEP) == CleanupReport({"1": len(doomed)})
        assert names(cluster_client) == kept
        assert clean_version(cluster_client, "p:", "M", "1", KEEP) == CleanupReport({"1": 0})
        assert clean_stale(cluster_client, "p:", "M", {"2": "new"}) == CleanupReport({"2": len(kept)})
    assert names(cluster_client) == set()
    assert errors == {}
    slots = {key_slot(decompose_key("p:", "1", customer, "q").encode()) for customer in customers}
    assert len(slots) > 900
    assert all(0.25 < size / sum(sizes) < 0.42 for size in sizes)
    evidence["keys removed from a cluster"] += len(doomed) + len(kept)


def test_a_hash_tagged_customer_has_one_slot() -> None:
    """C10: with the customer as hash tag all keys of one customer share a slot, across versions and families."""
    keys = {key for version in ("1", "2") for key in keys_of("p:", version, ["{c-7}"])}
    assert len({key_slot(key.encode()) for key in keys}) == 1


def test_a_slot_that_moved_is_followed(redis_cluster: ValkeyCluster, cluster_client: redis.RedisCluster) -> None:
    """C10: a client whose map of the cluster is old still finds and removes every key, and counts each once."""
    doomed = fill(cluster_client, "p:", "1", customers=CUSTOMERS)
    slot = key_slot(decompose_key("p:", "1", CUSTOMERS[0], "q").encode())
    with moved(redis_cluster, slot), errors_counted(redis_cluster) as errors:
        assert clean_version(cluster_client, "p:", "M", "1", KEEP) == CleanupReport({"1": len(doomed)})
        assert names(cluster_client) == set()
    assert set(errors) == {"errorstat_MOVED"}


@contextmanager
def moved(cluster: ValkeyCluster, slot: int) -> Iterator[None]:
    """Move a slot with its keys to the next primary, and back when it is empty."""
    owner = slot * len(cluster.ports) // SLOTS
    there = (owner + 1) % len(cluster.ports)
    move(cluster, slot, owner, there)
    try:
        yield
    finally:
        move(cluster, slot, there, owner)


def move(cluster: ValkeyCluster, slot: int, source: int, target: int) -> None:
    nodes = cluster.nodes()
    ids = [node.execute_command("CLUSTER MYID") for node in nodes]
    nodes[target].execute_command("CLUSTER SETSLOT", slot, "IMPORTING", ids[source])
    nodes[source].execute_command("CLUSTER SETSLOT", slot, "MIGRATING", ids[target])
    while keys := nodes[source].execute_command("CLUSTER GETKEYSINSLOT", slot, 100):
        nodes[source].migrate("127.0.0.1", cluster.ports[target], keys, 0, 5000)
    for node in (nodes[target], nodes[source], *nodes):
        node.execute_command("CLUSTER SETSLOT", slot, "NODE", ids[target])


def test_a_primary_that_is_silent_is_no_clean_pass(
    redis_cluster: ValkeyCluster, cluster_client: redis.RedisCluster,
) -> None:
    """C10: with one primary not answering, clean-up fails instead of calling the rest all; the marker stays."""
    fill(cluster_client, "p:", "1", customers=CUSTOMERS)
    node = cluster_client.get_node_from_key(decompose_key("p:", "1", CUSTOMERS[0], "q"))
    hasty = redis.RedisCluster("127.0.0.1", redis_cluster.ports[0], decode_responses=True, socket_timeout=0.5)
    with hasty, stopped(node), pytest.raises((redis.TimeoutError, redis.ConnectionError)):
        clean_version(hasty, "p:", "M", "1", KEEP)
    assert cluster_client.exists(marker_key("p:", "1"))
    left = len(names(cluster_client))
    assert left > len(CUSTOMERS) // 4
    assert clean_version(cluster_client, "p:", "M", "1", KEEP).removed == {"1": left}


@contextmanager
def stopped(node: redis.cluster.ClusterNode) -> Iterator[None]:
    """The server's process is stopped meanwhile: its port is open, and nobody answers."""
    with redis.Redis(node.host, node.port) as client:
        pid = client.info("server")["process_id"]
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def test_customers_under_one_tag_are_one_slot() -> None:
    """C10: why a prefix must hold no braces: it would be the tag of every key, and one slot would hold them all."""
    assert len({key_slot(key.encode()) for key in keys_of("{rag}:", "1", CUSTOMERS)}) == 1


def test_keys_of_others_on_the_cluster_stay(cluster_client: redis.RedisCluster) -> None:
    """C1: on a cluster, too, v1 takes no v10 along, and a prefix with glob characters is data."""
    doomed = fill(cluster_client, "t[3]*:", "1", customers=CUSTOMERS[:50])
    kept = fill(cluster_client, "t[3]*:", "10", customers=CUSTOMERS[:50]) | fill(cluster_client, "t3x:", "1")
    write(cluster_client, others := {"rag_decompose", "t[3]*:x"})
    assert clean_version(cluster_client, "t[3]*:", "M", "1", KEEP).removed == {"1": len(doomed)}
    assert names(cluster_client) == kept | others
