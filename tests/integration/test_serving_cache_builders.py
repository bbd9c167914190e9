"""One builder per key on a cold miss, within a pod and across pods, on a real server."""

from __future__ import annotations

import asyncio
import time
from collections import Counter

import pytest
import redis

from airflow_provider_ragops.contract import decompose_key, text_digest
from airflow_provider_ragops.workloads.serving.cache.settings import CacheSettings
from airflow_provider_ragops.workloads.serving.cache.values import Decomposition
from tests.key_space import connect, database, names
from tests.pods import eventually, pod, run, settings
from tests.server import Server

LEASE = f"{decompose_key('', '1', 'c1', text_digest('q').hex()[:32])}:lease"
# What is shown here is who builds, not how fast a busy test machine is.
PATIENT = {"budget": 600.0, "connect": 600.0}


@pytest.fixture
def client(redis_server: Server) -> redis.Redis:
    """A database of this module's own, empty."""
    client = connect(redis_server.url, 8)
    client.flushdb()
    return client


@pytest.fixture
def here(redis_server: Server, client: redis.Redis) -> CacheSettings:
    return settings(database(redis_server.url, 8), patience=20.0, lease=20.0, **PATIENT)


def test_two_hundred_misses_of_one_customer_build_once(here: CacheSettings, evidence: Counter[str]) -> None:
    """C4: 200 concurrent misses in one pod are one computation, one write, and one answer for all."""

    async def scenario() -> None:
        one = pod(here)
        await one.cache.claim()
        one.seconds = 0.05
        outcomes = Counter(await asyncio.gather(*(one.ask("c1", "q") for _ in range(200))))
        assert outcomes == {"miss": 1, "hit": 199}
        assert (one.built["q"], one.cache.counts.written, one.cache.counts.shared) == (1, 1, 199)
        await one.cache.close()

    run(scenario)
    evidence["requests"] += 200


def test_across_pods_too(here: CacheSettings, client: redis.Redis, evidence: Counter[str]) -> None:
    """C4: 200 concurrent misses over four pods are one computation; no lease is left behind."""

    async def scenario() -> None:
        pods = [pod(here) for _ in range(4)]
        for each in pods:
            await each.cache.claim()
            each.seconds = 0.1
        outcomes = Counter(await asyncio.gather(*(pods[number % 4].ask("c1", "q") for number in range(200))))
        assert outcomes == {"miss": 1, "hit": 199}
        assert sum(each.built["q"] for each in pods) == 1
        assert sum(each.cache.counts.waited for each in pods) == 3
        for each in pods:
            await each.cache.close()

    run(scenario)
    assert LEASE not in names(client)
    evidence["requests"] += 200


def test_a_builder_that_died_is_replaced_within_the_lease(redis_server: Server, client: redis.Redis) -> None:
    """C4: a pod that was killed with the lease holds others up no longer than the lease, and one of them builds."""
    found = settings(database(redis_server.url, 8), patience=20.0, lease=1.0, **PATIENT)

    async def scenario() -> None:
        pods = [pod(found) for _ in range(3)]
        for each in pods:
            await each.cache.claim()
        client.set(LEASE, "the token of a pod that is gone", px=1000)
        started = time.monotonic()
        outcomes = Counter(await asyncio.gather(*(each.ask("c1", "q") for each in pods)))
        assert outcomes == {"miss": 1, "hit": 2}
        assert 0.9 < time.monotonic() - started < 10
        for each in pods:
            await each.cache.close()

    run(scenario)


def test_nobody_waits_for_a_builder_without_end(redis_server: Server, client: redis.Redis) -> None:
    """C4: a lease that does not end costs a request its patience, then it builds; and the lease stays its holder's."""
    found = settings(database(redis_server.url, 8), patience=0.2, lease=60.0, **PATIENT)

    async def scenario() -> None:
        one = pod(found)
        await one.cache.claim()
        client.set(LEASE, "another pod's", px=60_000)
        started = time.monotonic()
        assert await one.ask("c1", "q") == "miss"
        assert 0.2 <= time.monotonic() - started < 5
        assert await one.ask("c1", "q") == "hit"
        assert client.get(LEASE) == "another pod's"
        await one.cache.close()

    run(scenario)


def test_a_slow_builder_leaves_its_successors_lease(redis_server: Server, client: redis.Redis) -> None:
    """C4: a builder that took longer than its lease does not end the lease that another pod holds by now."""
    found = settings(database(redis_server.url, 8), patience=0.0, lease=0.2, **PATIENT)

    async def scenario() -> None:
        one = pod(found)
        await one.cache.claim()
        one.seconds = 0.5
        slow = asyncio.create_task(one.ask("c1", "q"))
        await asyncio.sleep(0.35)
        assert client.set(LEASE, "its successor's", nx=True, px=60_000)
        assert await slow == "miss"
        await one.cache.close()
        assert client.get(LEASE) == "its successor's"

    run(scenario)


def test_a_caller_that_leaves_takes_nobody_along(here: CacheSettings, client: redis.Redis) -> None:
    """C4: the first caller is cancelled, as all but one of the others are: the last one still gets the one answer."""

    async def scenario() -> None:
        one = pod(here)
        await one.cache.claim()
        one.seconds = 0.3
        callers = [asyncio.create_task(one.ask("c1", "q")) for _ in range(10)]
        await asyncio.sleep(0.1)
        for caller in callers[:9]:
            caller.cancel()
        assert await callers[9] == "hit"
        assert [caller.cancelled() for caller in callers] == [True] * 9 + [False]
        assert one.built["q"] == 1
        await one.cache.close()

    run(scenario)


def test_all_callers_left_and_the_value_is_kept(here: CacheSettings) -> None:
    """C4: work that nobody waits for any more is not thrown away: the client that comes back finds it."""

    async def scenario() -> None:
        one = pod(here)
        await one.cache.claim()
        one.seconds = 0.1
        caller = asyncio.create_task(one.ask("c1", "q"))
        await asyncio.sleep(0.05)
        caller.cancel()

        async def is_kept() -> bool:
            return one.cache.counts.written == 1

        await eventually(is_kept)
        assert await one.ask("c1", "q") == "hit"
        await one.cache.close()

    run(scenario)


def test_a_builder_that_fails_is_replaced(here: CacheSettings, client: redis.Redis) -> None:
    """C4: the model's error is told to its own caller; one of those who waited builds for the rest, at once."""

    async def scenario() -> None:
        one = pod(here)
        await one.cache.claim()
        calls = 0

        async def build() -> Decomposition:
            nonlocal calls
            calls += 1
            await asyncio.sleep(0.05)
            if calls == 1:
                raise ValueError("out of memory")
            return one.split("q")

        started = time.monotonic()
        asked = [one.cache.decomposition("c1", "q", build) for _ in range(20)]
        told = await asyncio.gather(*asked, return_exceptions=True)
        assert time.monotonic() - started < 10  # not after the lease of 20 s
        assert [type(each).__name__ for each in told].count("ValueError") == 1
        assert calls == 2
        assert LEASE not in names(client)
        await one.cache.close()

    run(scenario)


def test_an_error_that_stays_is_told_to_all(here: CacheSettings) -> None:
    """C4: a question on which the model always fails is tried twice for 50 callers, not 50 times."""

    async def scenario() -> None:
        one = pod(here)
        await one.cache.claim()
        calls = 0

        async def build() -> Decomposition:
            nonlocal calls
            calls += 1
            await asyncio.sleep(0.01)
            raise ValueError("always")

        asked = [one.cache.decomposition("c1", "q", build) for _ in range(50)]
        told = await asyncio.gather(*asked, return_exceptions=True)
        assert {repr(each) for each in told} == {"ValueError('always')"}
        assert calls <= 3
        await one.cache.close()

    run(scenario)


def test_a_build_that_cancels_itself_is_no_cancellation_of_others(here: CacheSettings) -> None:
    """C4: a builder whose own scope is cancelled (its request's time is up) is replaced; its waiters get an answer."""

    async def scenario() -> None:
        one = pod(here)
        await one.cache.claim()
        calls = 0

        async def build() -> Decomposition:
            nonlocal calls
            calls += 1
            await asyncio.sleep(0.02)
            if calls == 1:
                raise asyncio.CancelledError
            return one.split("q")

        told = await asyncio.gather(*(one.cache.decomposition("c1", "q", build) for _ in range(20)))
        assert {split.sub_queries for split, _ in told} == {one.split("q").sub_queries}
        assert calls == 2
        await one.cache.close()

    run(scenario)


def test_more_questions_than_may_be_built_at_once(redis_server: Server, client: redis.Redis) -> None:
    """C9: the map of what is being built is bounded; beyond it questions are answered without cache."""
    found = settings(database(redis_server.url, 8), flights=5, **PATIENT)

    async def scenario() -> None:
        one = pod(found)
        await one.cache.claim()
        one.seconds = 0.2
        outcomes = Counter(await asyncio.gather(*(one.ask("c1", str(number)) for number in range(50))))
        assert outcomes == {"miss": 5, "bypass": 45}
        assert one.cache.counts.bypasses == {"too many builders": 45}
        await one.cache.close()

    run(scenario)


def test_closing_ends_builders(here: CacheSettings) -> None:
    """A pod that ends leaves no task; who still waits gets an answer, built for it alone."""

    async def scenario() -> None:
        one = pod(here)
        await one.cache.claim()
        one.seconds = 0.2
        caller = asyncio.create_task(one.ask("c1", "q"))
        await asyncio.sleep(0.05)
        await one.cache.close()
        assert await caller == "bypass"
        assert await one.ask("c1", "q") == "bypass"
        await one.cache.close()

    run(scenario)
