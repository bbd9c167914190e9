"""The serving pods' cache on a real cluster: three primaries, the customer as hash tag, slots that move."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import redis
from redis.crc import key_slot

from airflow_provider_ragops.cache.cleanup import CleanupReport, clean_versions
from airflow_provider_ragops.cache.inventory import unmarked
from airflow_provider_ragops.cache.keyspace import key_space_fault
from airflow_provider_ragops.contract import customer_part, decompose_key, text_digest
from airflow_provider_ragops.exceptions import ConfigurationError
from airflow_provider_ragops.workloads.serving.cache.settings import CacheSettings
from tests.key_space import names
from tests.pods import eventually, pod, run, settings
from tests.valkey_cluster import SLOTS, ValkeyCluster

AWKWARD = ("{c}", "}{", "{", "*", "a\nb", "Zoë", "x" * 100_000, "\ud800", "{}{c}")


@pytest.fixture
def here(redis_cluster: ValkeyCluster, cluster_client: redis.RedisCluster) -> CacheSettings:
    # Only a test's own timeout is shorter: what is shown with these does not hang on how busy the machine is.
    patient = {"budget": 600.0, "connect": 600.0}
    return settings(f"redis://127.0.0.1:{redis_cluster.ports[0]}", "p:", is_cluster=True, **patient)


def errors(cluster: ValkeyCluster) -> Counter[str]:
    """What the nodes answered with an error since the last look, by kind."""
    found: Counter[str] = Counter()
    for node in cluster.nodes():
        found.update({name: stats["count"] for name, stats in node.info("errorstats").items()})
        node.config_resetstat()
        node.close()
    return found


def key_of(customer: str, question: str = "q", version: str = "1") -> str:
    return decompose_key("p:", version, customer_part(customer, is_tag=True), text_digest(question).hex()[:32])


def test_a_thousand_customers_in_two_versions(
    redis_cluster: ValkeyCluster, cluster_client: redis.RedisCluster, here: CacheSettings, evidence: Counter[str],
) -> None:
    """C10: customers and search results are spread over the primaries, a customer's keys share a slot, nothing crosses.

    Clean-up finds every key of the version, whatever the customers' ids hold, and no other.
    """
    customers = [*AWKWARD, *(f"customer-{number}" for number in range(1000))]
    # A hundred at once: with all of them, the time of a busy machine runs out and not Redis'.
    hundreds = [customers[start:start + 100] for start in range(0, len(customers), 100)]
    errors(redis_cluster)

    async def scenario() -> None:
        for version in ("1", "2"):
            one = pod(here, version)
            await one.cache.claim()
            for expected in ("miss", "hit"):
                for some in hundreds:
                    assert set(await asyncio.gather(*(one.ask(each, "q") for each in some))) == {expected}
                outcomes = set(await asyncio.gather(*(one.search(each[:50], "s") for each in customers[-300:])))
                assert outcomes <= {"miss", "hit"}
            assert await one.search(*(each[:50] for each in customers[-300:])) == "hit"
            await one.cache.close()

    run(scenario)
    sizes = [node.dbsize() for node in redis_cluster.nodes()]
    assert all(0.25 < size / sum(sizes) < 0.42 for size in sizes)
    each = len(customers) + 300 + 1 + 1
    assert len(names(cluster_client)) == 2 * each
    assert len({key_slot(key_of(customer).encode()) for customer in customers}) > 900
    slots = {key_slot(key_of("{c}", question, version).encode()) for question in "abc" for version in "12"}
    assert slots == {key_slot(f"{{{customer_part('{c}')}}}".encode())}
    assert key_space_fault(cluster_client, "p:", "M", "1", "2", runs={"1": "run-1", "2": "run-2"}) == ""
    assert unmarked(cluster_client, "p:") == {}
    assert clean_versions(cluster_client, "p:", "M", {"2": "champion"}) == CleanupReport({"1": each})
    assert {name.split(":")[2] for name in names(cluster_client)} == {"v2"}
    assert errors(redis_cluster) == {}
    evidence["requests"] += 4 * len(customers)


def test_every_key_on_the_cluster_has_a_time_to_live(here: CacheSettings, cluster_client: redis.RedisCluster) -> None:
    """C8: on a cluster, too: values and marker."""

    async def scenario() -> None:
        one = pod(here)
        await one.cache.claim()
        for number in range(50):
            await one.ask(f"c{number}", "q")
            await one.search(str(number))
        await one.cache.close()

    run(scenario)
    found = names(cluster_client)
    assert len(found) == 101
    assert all(cluster_client.pttl(name) > 3_000_000 for name in found)


def test_slots_that_move_are_followed(redis_cluster: ValkeyCluster, here: CacheSettings) -> None:
    """C10: while a slot moves (ASK) and after it moved (MOVED) values are found, built once and kept; none is lost."""
    slot = key_slot(key_of("c1").encode())
    owner = slot * len(redis_cluster.ports) // SLOTS
    nodes = redis_cluster.nodes()
    source, target = nodes[owner], nodes[(owner + 1) % len(nodes)]
    ids = {node: node.execute_command("CLUSTER MYID") for node in nodes}

    def settled(to: redis.Redis) -> None:
        for node in (to, *nodes):
            node.execute_command("CLUSTER SETSLOT", slot, "NODE", ids[to])

    async def scenario() -> None:
        one = pod(here)
        await one.cache.claim()
        assert await one.ask("c1", "before") == "miss"
        target.execute_command("CLUSTER SETSLOT", slot, "IMPORTING", ids[source])
        source.execute_command("CLUSTER SETSLOT", slot, "MIGRATING", ids[target])
        assert [await one.ask("c1", "moving"), await one.ask("c1", "moving")] == ["miss", "hit"]
        assert source.execute_command("CLUSTER COUNTKEYSINSLOT", slot) == 1
        while keys := source.execute_command("CLUSTER GETKEYSINSLOT", slot, 100):
            source.migrate("127.0.0.1", target.get_connection_kwargs()["port"], keys, 0, 5000)
        settled(target)
        outcomes = [await one.ask("c1", each) for each in ("before", "moving", "after", "after")]
        assert outcomes == ["hit", "hit", "miss", "hit"]
        assert one.cache.counts.mismatches == {}
        await one.cache.close()

    try:
        run(scenario)
    finally:
        target.flushall()
        source.flushall()
        settled(source)
        for node in nodes:
            node.close()


@contextmanager
def frozen(cluster: ValkeyCluster, number: int) -> Iterator[None]:
    with redis.Redis("127.0.0.1", cluster.ports[number]) as client:
        pid = client.info("server")["process_id"]
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def test_one_primary_of_three_is_frozen(redis_cluster: ValkeyCluster, here: CacheSettings) -> None:
    """C9, C10: the other primaries' keys are served from cache as before; the frozen one's cost a few budgets."""
    found = settings(f"redis://{here.server.address}", "p:", is_cluster=True, budget=0.3)
    customers = [f"c{number}" for number in range(60)]

    def third(customer: str) -> int:
        return key_slot(key_of(customer).encode()) * 3 // SLOTS

    # The marker lies on one primary, too: without it nothing new may be written, but what is there is read.
    gone = (key_slot(b"p:rag_meta:v1") * 3 // SLOTS + 1) % 3

    async def scenario() -> None:
        one = pod(found)
        await one.cache.claim()
        for customer in customers:
            assert await one.ask(customer, "q") == "miss"
        with frozen(redis_cluster, gone):
            started = time.monotonic()
            for customer in customers:
                assert await one.ask(customer, "q") == ("bypass" if third(customer) == gone else "hit")
            assert time.monotonic() - started < 5
            other = next(customer for customer in customers if third(customer) != gone)
            assert [await one.ask(other, "new"), await one.ask(other, "new")] == ["miss", "hit"]
        lost = next(customer for customer in customers if third(customer) == gone)

        async def is_back() -> bool:
            return await one.ask(lost, "q") == "hit"

        await eventually(is_back)
        await one.cache.close()

    run(scenario)


def test_settings_that_a_cluster_can_not_have(redis_cluster: ValkeyCluster) -> None:
    """C10: braces in the prefix would put all keys on one slot, and a cluster has one database: both are refused."""
    environ = {"REDIS_URL": "redis://h:1", "REDIS_CLUSTER": "true"}
    with pytest.raises(ConfigurationError, match="REDIS_PREFIX: expected no braces"):
        CacheSettings.from_environ(environ | {"REDIS_PREFIX": "{a}:"})
    with pytest.raises(ConfigurationError, match="REDIS_URL: expected database 0"):
        CacheSettings.from_environ(environ | {"REDIS_URL": "redis://h:1/2"})
