"""The serving pods' cache on a real server: versions, models and pods side by side, and Airflow's clean-up."""

from __future__ import annotations

import asyncio
from collections import Counter

import numpy as np
import pytest
import redis

from airflow_provider_ragops.cache.cleanup import CleanupReport, clean_stale, clean_version, clean_versions
from airflow_provider_ragops.cache.inventory import unmarked
from airflow_provider_ragops.cache.keyspace import key_space_fault
from airflow_provider_ragops.contract import decompose_key, marker_key, text_digest
from airflow_provider_ragops.exceptions import CacheKeyCollisionError, UnreachableError
from airflow_provider_ragops.workloads.serving.cache.settings import CacheSettings
from airflow_provider_ragops.workloads.serving.cache.values import Decomposition
from tests.fakes.time import FakeTime
from tests.key_space import connect, database, names
from tests.pods import pod, run, settings
from tests.server import Server

AWKWARD = (
    "c1", "*", "v1:*", "[a-z]", "?", "\\", "c:1", "{c}", "}{", "{", "Zoë", " ", "a\nb", "a\r\nDEL x", "\x00", "~" * 40,
    "customer_id=1:v1:", "x" * 2_000_000, "\ud800", "日本語", "c1 ", "C1", "~" + "0" * 32,
)

PATIENT = 600.0  # what is shown here is what is kept, not how fast a busy test machine is


@pytest.fixture
def client(redis_server: Server) -> redis.Redis:
    """A database of this module's own, empty."""
    client = connect(redis_server.url, 9)
    client.flushdb()
    return client


@pytest.fixture
def here(redis_server: Server, client: redis.Redis) -> CacheSettings:
    return settings(database(redis_server.url, 9), "shop:", budget=PATIENT)


def limited(here: CacheSettings, **limits: float) -> CacheSettings:
    """Its address and prefix, with other limits."""
    found = settings("", here.prefix, budget=PATIENT, **limits)
    return CacheSettings(here.server, here.prefix, here.may_evict, found.limits)


def test_a_second_question_gets_its_own_answer(here: CacheSettings, client: redis.Redis) -> None:
    """C7: two questions of one customer, and one question of two customers, are four values; each is found again."""

    async def scenario() -> None:
        one = pod(here)
        await one.cache.claim()
        for expected in ("miss", "hit"):
            for customer in ("c1", "c2"):
                for question in ("q", "q ", "Q", "q\x1f", ""):
                    assert await one.ask(customer, question) == expected
        assert one.cache.counts.written == 10
        assert await one.ask(None, "q") == await one.ask("", "q") == "bypass"
        await one.cache.close()

    run(scenario)
    assert len(names(client)) == 11
    assert client.exists(decompose_key("shop:", "1", "c1", text_digest("q").hex()[:32]))


def test_search_results_are_shared_by_customers(here: CacheSettings) -> None:
    """Each sub-query has its own value: a question that shares some of them finds those; another k does not."""

    async def scenario() -> None:
        one, two = pod(here), pod(here)
        await one.cache.claim()
        assert await one.search("a", "b") == "miss"
        assert await two.search("b") == await two.search("a", "b", "a") == await two.search() == "hit"
        assert await two.search("b", "c") == "miss"
        assert await two.search("c") == "hit"
        assert await two.search("a", k=6) == "miss"
        assert two.built["search"] == 2
        await one.cache.close()
        await two.cache.close()

    run(scenario)


def test_two_versions_two_pods_and_two_models_side_by_side(here: CacheSettings, client: redis.Redis) -> None:
    """C7, M7: pods of one version share values; another version, another dimension and another prefix never do."""

    async def scenario() -> None:
        other = CacheSettings(here.server, "bank:", here.may_evict, here.limits)
        pods = [pod(here), pod(here), pod(here, "2", dimension=16), pod(other, "1", "run-x", "Other")]
        for each in pods:
            await each.cache.claim()
        seen = [[await each.ask("c1", "q"), await each.search("a")] for each in pods]
        assert seen == [["miss", "miss"], ["hit", "hit"], ["miss", "miss"], ["miss", "miss"]]
        for each in pods:
            assert not each.cache.counts.mismatches
            await each.cache.close()

    run(scenario)
    assert key_space_fault(client, "shop:", "M", "1", "2", runs={"1": "run-1", "2": "run-2"}) == ""
    assert unmarked(client, "shop:") == unmarked(client, "bank:") == {}
    assert clean_versions(client, "shop:", "M", {"2": "champion"}) == CleanupReport({"1": 3})
    assert {name.partition("rag_")[0] for name in names(client)} == {"shop:", "bank:"}
    assert len(names(client)) == 6


def test_clean_up_finds_what_awkward_customers_left(here: CacheSettings, client: redis.Redis) -> None:
    """C1, C7: whatever a customer's id is, it has a key of its own that its version's clean-up finds, and only that."""

    async def scenario() -> None:
        pods = [pod(here, version) for version in ("1", "10", "11")]
        for each in pods:
            await each.cache.claim()
            for expected in ("miss", "hit"):
                assert {await each.ask(customer, "q\n*{}") for customer in AWKWARD} == {expected}
            await each.cache.close()

    run(scenario)
    assert max(map(len, names(client))) < 150
    assert clean_version(client, "shop:", "M", "1", {}) == CleanupReport({"1": len(AWKWARD) + 1})
    assert Counter(name.split(":")[2] for name in names(client)) == {"v10": len(AWKWARD) + 1, "v11": len(AWKWARD) + 1}


def test_every_key_has_a_time_to_live(here: CacheSettings, client: redis.Redis) -> None:
    """C8: values, leases and marker end by themselves, also after they were written again; no two values together.

    The marker outlives every value, so clean-up never meets keys that nobody claims.
    """

    async def scenario() -> None:
        one = pod(limited(here, ttl=1000.0, lease=60.0))
        await one.cache.claim()
        client.persist("shop:rag_meta:v1")
        for number in range(30):
            await one.ask("c1", str(number))
            await one.search(str(number))
        for name in names(client):
            if "rag_meta" not in name:
                client.set(name, "unfit")  # drops the time to live, too
        assert await one.ask("c1", "0") == await one.search("0") == "mismatch"
        one.seconds = 0.2
        slow = asyncio.create_task(one.ask("c1", "slow"))
        await asyncio.sleep(0.1)
        assert 0 < client.pttl(next(name for name in names(client) if name.endswith(":lease"))) <= 60_000
        await slow
        one.seconds = 0.0
        for number in range(1, 30):
            await one.ask("c1", str(number))
            await one.search(str(number))
        await one.cache.close()

    run(scenario)
    left = {name: client.pttl(name) for name in names(client)}
    marker = left.pop("shop:rag_meta:v1")
    assert all(800_000 < each <= 1_100_000 for each in left.values())
    assert len({each // 1000 for each in left.values()}) > 30
    assert marker > max(left.values())
    assert not any(name.endswith(":lease") for name in left)


def test_another_models_or_runs_marker_is_refused(here: CacheSettings, client: redis.Redis) -> None:
    """M7: a marker of another model, run or dimension stays as it is; the pod is told whose, and caches nothing."""

    async def scenario() -> None:
        first = pod(here, run="run-a")
        await first.cache.claim()
        await first.ask("c1", "q")
        before = names(client)
        told = r"marker shop:rag_meta:v1: expected model .* saw model 'M', run 'run-a', dimension '8'"
        others = ({"run": "run-b"}, {"run": "run-a", "model": "Other"}, {"run": "run-a", "dimension": 16})
        for other in (pod(here, **which) for which in others):
            with pytest.raises(CacheKeyCollisionError, match=told):
                await other.cache.claim()
            assert await other.ask("c1", "q") == await other.search("a") == "bypass"
            assert other.cache.standing == "foreign"
            assert other.cache.counts.bypasses == {"marker foreign": 2}
            await other.cache.close()
        assert names(client) == before
        assert client.hgetall("shop:rag_meta:v1") == {"model": "M", "run": "run-a", "dimension": "8"}
        await first.cache.close()

    run(scenario)


def test_pods_that_start_together_agree(here: CacheSettings, evidence: Counter[str]) -> None:
    """M7: of pods of two runs that claim one number at once, those of one run may write; the others are told."""

    async def scenario() -> None:
        pods = [pod(here, run=f"run-{number % 2}") for number in range(10)]
        told = await asyncio.gather(*(each.cache.claim() for each in pods), return_exceptions=True)
        mine = {each.identity.run for each, error in zip(pods, told, strict=True) if error is None}
        assert len(mine) == 1
        refused = [isinstance(error, CacheKeyCollisionError) for error in told]
        assert refused == [each.identity.run not in mine for each in pods]
        assert len({await each.ask("c", "q") for each in pods if each.identity.run not in mine}) == 1
        for each in pods:
            await each.cache.close()
        evidence["schedules"] += 1

    run(scenario)


def test_old_values_of_a_number_that_was_used_before(here: CacheSettings, client: redis.Redis) -> None:
    """M7: version 1 made anew finds keys of the old version 1, marker gone: none is answered, each is a mismatch."""

    async def scenario() -> None:
        old, new = pod(here, run="old"), pod(here, run="new")
        await old.cache.claim()
        await old.ask("c1", "q")
        await old.search("a")
        client.delete("shop:rag_meta:v1")
        await new.cache.claim()
        assert await new.ask("c1", "q") == await new.search("a") == "mismatch"
        assert new.cache.counts.mismatches == {"identity": 2}
        assert await new.ask("c1", "q") == await new.search("a") == "hit"
        await old.cache.close()
        await new.cache.close()

    run(scenario)
    assert clean_stale(client, "shop:", "M", {"1": "new"}).removed == {}
    assert clean_stale(client, "shop:", "M", {"1": "newest"}).removed == {"1": 3}


@pytest.mark.parametrize("loss", ["evicted", "cleaned up", "another's"])
def test_a_marker_that_is_lost_stops_writing(here: CacheSettings, client: redis.Redis, loss: str) -> None:
    """C8, M7: while serving, a marker that vanished or became another's stops all keys; the pod resumes when it may."""
    time = FakeTime()

    async def scenario() -> None:
        one = pod(here, clock=time.clock)
        await one.cache.claim()
        assert await one.ask("c1", "q") == "miss"
        if loss == "evicted":
            client.flushdb()
        elif loss == "cleaned up":
            assert clean_version(client, "shop:", "M", "1", {}).removed == {"1": 2}
        else:
            client.flushdb()
            client.hset(marker_key("shop:", "1"), mapping={"model": "M", "run": "other", "dimension": "8"})
        before = names(client)
        standing = "foreign" if loss == "another's" else "missing"
        assert [await one.ask("c1", question) for question in ("q", "q", "q2")] == ["bypass"] * 3
        assert (one.cache.standing, names(client)) == (standing, before)
        assert one.cache.counts.bypasses == {f"marker {standing}": 3}
        time.seconds += here.limits.reclaim - 1
        with pytest.raises((UnreachableError, CacheKeyCollisionError)):
            await one.cache.claim()
        assert names(client) == before
        time.seconds += 2 if loss != "another's" else here.limits.reclaim + 2
        if loss == "another's":
            assert await one.ask("c1", "q") == "bypass"
            client.delete(marker_key("shop:", "1"))
            time.seconds += here.limits.reclaim + 1
        assert [await one.ask("c1", "q"), await one.ask("c1", "q"), one.cache.standing] == ["miss", "hit", "ours"]
        await one.cache.close()

    run(scenario)
    assert unmarked(client, "shop:") == {}


def test_an_idle_pods_marker_ends_and_is_written_anew_at_once(here: CacheSettings, client: redis.Redis) -> None:
    """C8: a pod that nobody asked for longer than the marker lives finds none, and goes on as before."""
    time = FakeTime()

    async def scenario() -> None:
        one = pod(here, clock=time.clock)
        await one.cache.claim()
        client.flushdb()
        time.seconds += here.limits.marker_ttl
        assert [await one.ask("c1", "q"), await one.ask("c1", "q")] == ["miss", "hit"]
        await one.cache.close()

    run(scenario)


def test_what_does_not_fit_is_a_miss_and_a_number(here: CacheSettings, client: redis.Redis) -> None:
    """C7: truncated, flipped, foreign, giant and moved values, and other types, are no answer and no error."""

    async def scenario() -> None:
        one = pod(here)
        await one.cache.claim()
        await one.ask("c1", "q")
        await one.ask("c1", "q2")
        keys = {each: decompose_key("shop:", "1", "c1", text_digest(each).hex()[:32]) for each in ("q", "q2")}
        binary = redis.Redis(host=here.server.host, port=here.server.port, db=here.server.database)
        good = binary.get(keys["q"])
        assert good is not None
        bad = {
            "schema": (b"x", b"{}", b"RAGC", b"RAGC\x02" + good[5:], "\N{SNOWMAN}".encode()),
            "checksum": (good[:-1], good[:40], good + b"\x00", good[:60] + bytes([good[60] ^ 1]) + good[61:]),
            "subject": (binary.get(keys["q2"]),),
            "size": (good + b"x" * 300_000,),
        }
        for reason, values in bad.items():
            for value in values:
                one.cache.counts.mismatches.clear()
                binary.set(keys["q"], value)
                assert await one.ask("c1", "q") == "mismatch", value[:80]
                assert one.cache.counts.mismatches == {reason: 1}
                assert await one.ask("c1", "q") == "hit"
        one.cache.counts.mismatches.clear()
        client.delete(keys["q"])
        client.hset(keys["q"], "a", "b")
        assert [await one.ask("c1", "q"), await one.ask("c1", "q")] == ["mismatch", "hit"]
        assert one.cache.counts.mismatches == {"kind": 1}
        binary.close()
        await one.cache.close()

    run(scenario)


def test_what_must_not_be_kept_is_answered_and_not_kept(here: CacheSettings, client: redis.Redis) -> None:
    """C7, C8: vectors with NaN or of another dimension, and values above the limit, are answered and never written."""

    async def scenario() -> None:
        one = pod(limited(here, largest=3000))
        await one.cache.claim()
        for vectors in (np.full((1, 8), np.nan), np.ones((1, 9)), np.ones((2, 8)), np.ones(8)):
            async def build(vectors: np.ndarray = vectors) -> Decomposition:
                return Decomposition(("a",), vectors.astype(np.float32))

            assert (await one.cache.decomposition("c1", "bad", build))[1] == "bypass"
        assert await one.ask("c1", "long " * 1000) == "bypass"
        assert one.cache.counts.unwritten == {"unfit": 4, "size": 1}
        assert one.cache.counts.written == 0
        await one.cache.close()

    run(scenario)
    assert names(client) == {"shop:rag_meta:v1"}
