"""What Redis can do to a serving pod: gone, frozen, slow, full, loading, read-only, locked. Requests go on."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ragops.contract import decompose_key, text_digest
from airflow_provider_ragops.exceptions import ConfigurationError, UnreachableError
from airflow_provider_ragops.workloads.serving.cache.settings import CacheSettings
from tests import pods
from tests.fakes.tcp import TcpProxy
from tests.own_redis import OwnRedis, own_redis
from tests.pods import Pod, eventually, pod, run
from tests.tls import certificate, tls_in_front_of

__all__ = ["own_redis"]

Begin = Callable[..., OwnRedis]
# Short enough to be noticed where it is spent 20 times over, long enough for a busy test machine.
BUDGET = 0.3
FEAST = b"\x02\x00\xfe\xffuser_id"


def settings(url: str, **limits: Any) -> CacheSettings:
    return pods.settings(url, **{"budget": BUDGET} | limits)


@asynccontextmanager
async def claimed(found: CacheSettings, **options: object) -> AsyncIterator[Pod]:
    one = pod(found, **options)  # type: ignore[arg-type]
    await one.cache.claim()
    try:
        yield one
    finally:
        await one.cache.close()


async def back(one: Pod) -> None:
    """Asked again and again, the pod uses Redis again by itself."""

    async def is_back() -> bool:
        return await one.ask("back", str(time.monotonic())) == "miss"

    await eventually(is_back)


async def known_again(one: Pod) -> None:
    """What was kept before is a hit again."""

    async def is_hit() -> bool:
        return await one.ask("c1", "known") == "hit"

    await eventually(is_hit)


async def timed(one: Pod, questions: int, label: str) -> tuple[Counter[str], float]:
    """Outcomes of requests one after another, and the seconds of all of them."""
    started = time.monotonic()
    outcomes = Counter([await one.ask("c1", f"{label} {number}") for number in range(questions)])
    return outcomes, time.monotonic() - started


def test_redis_is_down_when_the_pod_starts(own_redis: Begin) -> None:
    """C9: the pod can't claim and is told so, answers without cache, and caches once Redis is there: marker first."""
    server = own_redis()
    server.kill()

    async def scenario() -> None:
        one = pod(settings(server.url, connect=1.0))
        with pytest.raises(UnreachableError, match=rf"Redis at 127.0.0.1:{server.port}: expected an answer within 1 s"):
            await one.cache.claim()
        outcomes, seconds = await timed(one, 20, "down")
        assert outcomes == {"bypass": 20}
        assert seconds < 3
        server.start()
        await back(one)
        with server.client() as client:
            assert client.hgetall("rag_meta:v1") == {b"model": b"M", b"run": b"run-1", b"dimension": b"8"}
        await one.cache.claim()
        await one.cache.close()

    run(scenario)


def test_redis_is_killed_and_comes_back_empty(own_redis: Begin, evidence: Counter[str]) -> None:
    """C9: killed under load, no request fails or gets another's answer; back and empty, the marker comes first."""
    server = own_redis()

    async def scenario() -> None:
        async with claimed(settings(server.url, reclaim=0.3)) as one:
            await asyncio.gather(*(one.ask("c1", str(number)) for number in range(50)))
            load = asyncio.create_task(steady(one, 2.0))
            await asyncio.sleep(0.3)
            await asyncio.to_thread(server.kill)
            outcomes, seconds = await timed(one, 100, "down")
            assert outcomes == {"bypass": 100}
            assert seconds < 5
            await asyncio.to_thread(server.start)
            evidence["requests"] += await load + 150
            await back(one)
            with server.client() as client:
                assert client.exists("rag_meta:v1")
            assert "missing" in "".join(one.cache.counts.bypasses)

    run(scenario)


async def steady(one: Pod, seconds: float) -> int:
    """Requests without a break; how many were answered. :meth:`Pod.ask` asserts that each answer is right."""
    asked, until = 0, time.monotonic() + seconds
    while time.monotonic() < until:
        await asyncio.gather(*(one.ask("c1", str((asked + number) % 60)) for number in range(10)))
        asked += 10
        await asyncio.sleep(0.005)
    return asked


def test_redis_is_frozen(own_redis: Begin) -> None:
    """C9: a server that does not answer costs a few requests their budget and the others nothing; one connection.

    Two hundred requests at once lose one budget together. Awake again, it is used again.
    """
    server = own_redis()

    async def scenario() -> None:
        async with claimed(settings(server.url)) as one:
            assert await one.ask("c1", "known") == "miss"
            with server.frozen():
                outcomes, seconds = await timed(one, 50, "frozen")
                assert outcomes == {"bypass": 50}
                assert seconds < 5  # three budgets, not fifty
                started = time.monotonic()
                at_once = await asyncio.gather(*(one.ask("c1", f"at once {each}") for each in range(200)))
                assert set(at_once) == {"bypass"}
                assert time.monotonic() - started < 5
            await back(one)
            await known_again(one)
            with server.client() as client:
                assert client.info("clients")["connected_clients"] <= 3  # ours, its predecessor's end, and this one

    run(scenario)


@pytest.mark.parametrize("how", ["paused", "two seconds slow"])
def test_redis_is_slow(own_redis: Begin, how: str) -> None:
    """C9: answers that take two seconds are not waited for; when they are quick again the cache is used again."""
    server = own_redis()

    async def scenario() -> None:
        async with TcpProxy("127.0.0.1", server.port) as proxy, claimed(settings(proxy.url)) as one:
            assert await one.ask("c1", "known") == "miss"
            if how == "paused":
                with server.client() as client:
                    client.client_pause(2000, all=True)
            else:
                proxy.delay = 2.0
            outcomes, seconds = await timed(one, 30, "slow")
            assert outcomes == {"bypass": 30}
            assert seconds < 5
            proxy.delay = 0.0
            await back(one)
            await known_again(one)
            assert proxy.connections < 8

    run(scenario)


def test_a_busy_process_does_not_blame_the_server(own_redis: Begin) -> None:
    """C9: where the event loop stands still (a long computation in it), late replies don't turn the cache off."""
    server = own_redis()

    async def scenario() -> None:
        async with claimed(settings(server.url, budget=0.1)) as one:
            for turn in range(5):
                asking = [asyncio.create_task(one.ask("c1", f"{turn} {number}")) for number in range(10)]
                for _ in range(3):  # until all of them have been sent
                    await asyncio.sleep(0)
                time.sleep(0.4)
                await asyncio.gather(*asking)
            assert one.cache._client.link.breaker.opened == 0  # type: ignore[attr-defined]
            await back(one)

    run(scenario)


def test_connections_are_cut(own_redis: Begin, evidence: Counter[str]) -> None:
    """C7, C9: a connection that is reset between requests, under them, or half way through a reply harms no answer."""
    server = own_redis()

    async def scenario() -> None:
        async with TcpProxy("127.0.0.1", server.port) as proxy, claimed(settings(proxy.url)) as one:
            for number in range(30):
                await asyncio.gather(*(one.ask("c1", str(each)) for each in range(5)))
                if number % 3 == 0:
                    proxy.cut()
                elif number % 3 == 1:
                    proxy.cut_after = 100 * number
                else:
                    asking = asyncio.gather(*(one.ask("c1", str(each)) for each in range(5)))
                    await asyncio.sleep(0)
                    proxy.cut()
                    await asking
            evidence["requests"] += 200
            proxy.cut_after = None
            await back(one)

    run(scenario)


def test_replies_stay_with_their_requests(own_redis: Begin, evidence: Counter[str]) -> None:
    """C7, C9: requests that give up in the middle leave their replies to nobody: no later request gets one of them."""
    server = own_redis()

    async def scenario() -> None:
        async with TcpProxy("127.0.0.1", server.port) as proxy, claimed(settings(proxy.url, budget=1.0)) as one:
            for number in range(40):
                await one.ask("c1", str(number))
            for turn in range(20):
                proxy.delay = 0.01 if turn % 2 else 0.0
                asking = [asyncio.create_task(one.ask("c1", str(number))) for number in range(40)]
                await asyncio.sleep(0.002)
                for task in asking[turn % 3 :: 3]:
                    task.cancel()
                await asyncio.gather(*asking, return_exceptions=True)
                assert {task.result() for task in asking if not task.cancelled()} <= {"hit"}
            assert proxy.connections == 1
            assert not one.cache.counts.mismatches
            evidence["requests"] += 800

    run(scenario)


def test_redis_is_full(own_redis: Begin) -> None:
    """C3, C9: full and refusing writes, two versions' hits stay hits, the rest is answered without cache, at once.

    Feast's keys are whole, a marker's time to live is still renewed, and room is used when there is some.
    """
    server = own_redis("--maxmemory-policy", "noeviction")

    async def scenario() -> None:
        with server.client() as client:
            client.hset(FEAST, mapping={b"\xff": b"x" * 100_000})
            client.config_set("maxmemory", 6_000_000)
            found = settings(server.url, pause=0.3)
            async with claimed(found) as one, claimed(found, version="2") as two:
                assert one.cache.evicts == "none"
                filled = 0
                while await one.ask("c1", f"{filled}" + "x" * 100_000) == "miss":
                    await two.ask("c1", f"{filled}" + "x" * 100_000)
                    filled += 1
                assert filled > 5
                client.config_set("maxmemory", 2_000_000)  # what buffers give back is no room
                assert await one.ask("c1", "0" + "x" * 100_000) == await two.ask("c1", "0" + "x" * 100_000) == "hit"
                outcomes, seconds = await timed(one, 100, "full")
                assert outcomes == {"bypass": 100}
                assert seconds < 5
                assert one.cache.counts.unwritten["full"] < 20  # it is not tried at each request
                assert client.hget(FEAST, b"\xff") == b"x" * 100_000
                client.config_set("maxmemory", 100_000_000)
                await back(one)
                await back(two)

    run(scenario)


def test_a_server_that_evicts_keys_with_a_time_to_live(own_redis: Begin, caplog: pytest.LogCaptureFixture) -> None:
    """C3: volatile-lru is warned of; full of two versions it evicts theirs and never Feast's; each answer is right."""
    server = own_redis("--maxmemory-policy", "volatile-lru", "--maxmemory", "6000000")

    async def scenario() -> None:
        with server.client() as client:
            client.hset(FEAST, mapping={b"\xff": b"x" * 100_000})
            async with claimed(settings(server.url)) as one, claimed(settings(server.url), version="2") as two:
                assert one.cache.evicts == "expiring"
                for number in range(60):
                    for each in (one, two):
                        await each.ask("c1", f"{number % 40}" + "x" * 100_000)
                assert client.info("stats")["evicted_keys"] > 0
            assert client.hget(FEAST, b"\xff") == b"x" * 100_000

    run(scenario)
    assert "may evict other applications' keys that have a time to live" in caplog.text


def test_a_server_that_evicts_anything_is_refused(own_redis: Begin) -> None:
    """C3: allkeys-lru with a limit could evict Feast's keys: refused before the first key, unless told otherwise."""
    server = own_redis("--maxmemory-policy", "allkeys-lru", "--maxmemory", "50000000")

    async def scenario() -> None:
        one = pod(settings(server.url))
        with pytest.raises(ConfigurationError, match=r"may evict Feast's online store\. Set noevi.*MAY_EVICT"):
            await one.cache.claim()
        assert await one.ask("c1", "q") == await one.search("s") == "bypass"
        await one.cache.close()
        with server.client() as client:
            assert client.dbsize() == 0
        async with claimed(settings(server.url, may_evict=True)) as alone:
            assert alone.cache.evicts == "any"
            assert await alone.ask("c1", "q") == "miss"
        with server.client() as client:
            client.config_set("maxmemory", 0)
        async with claimed(settings(server.url)) as unlimited:
            assert unlimited.cache.evicts == "none"

    run(scenario)


@pytest.mark.parametrize(
    ("rights", "evicts"), [("-config", "expiring"), ("-info", "expiring"), ("-info -config", "unknown")]
)
def test_a_managed_server_that_does_not_tell(own_redis: Begin, rights: str, evicts: str) -> None:
    """C3: with INFO or CONFIG forbidden the other is asked; with both the policy is unknown, and serving goes on."""
    server = own_redis("--maxmemory-policy", "volatile-ttl", "--maxmemory", "50000000")
    with server.client() as client:
        client.execute_command("ACL", "SETUSER", "pod", "on", ">se cret/@:", "~*", "+@all", *rights.split())

    async def scenario() -> None:
        url = server.url.replace("redis://", "redis://pod:se%20cret%2F%40%3A@")
        async with claimed(settings(url)) as one:
            assert one.cache.evicts == evicts
            assert await one.ask("c1", "q") == "miss"

    run(scenario)


def test_the_rights_in_the_docs_are_enough(own_redis: Begin) -> None:
    """A user with the commands and keys that docs/redis.md lists, and no others, can do all that the cache does."""
    server = own_redis()
    commands = ["getrange", "set", "eval", "get", "del", "type", "hset", "hmget", "pexpire", "ping", "info"]
    rights = ("~p:rag_*", *(f"+{each}" for each in commands))
    with server.client() as client:
        client.execute_command("ACL", "SETUSER", "pod", "on", ">secret", *rights)

    async def scenario() -> None:
        found = replace(settings(server.url.replace("redis://", "redis://pod:secret@")), prefix="p:")
        async with claimed(found) as one:
            assert [await one.ask("c1", "q"), await one.search("s")] == ["miss", "miss"]
            assert [await one.ask("c1", "q"), await one.search("s")] == ["hit", "hit"]
        with server.client() as client:
            denied = [entry for entry in client.acl_log() if entry["object"] != "client|setinfo"]
            assert denied == []

    run(scenario)


def test_redis_is_loading(own_redis: Begin) -> None:
    """C9: a server that reads its data from disk refuses everything: no request waits, and then it is used again."""
    server = own_redis("--enable-debug-command", "yes")

    async def scenario() -> None:
        async with claimed(settings(server.url)) as one:
            assert await one.ask("c1", "known") == "miss"
            with server.client() as client:
                for number in range(300):
                    client.set(f"other {number}", "x" * 10_000)
                client.config_set("key-load-delay", 5000)
                client.config_set("loading-process-events-interval-bytes", 1024)
            reload = asyncio.create_task(asyncio.to_thread(reloaded, server))
            seen: Counter[str] = Counter()
            while not reload.done():
                outcomes, seconds = await timed(one, 10, str(time.monotonic()))
                assert seconds < 3
                seen += outcomes
                await asyncio.sleep(0.02)
            await reload
            assert seen["bypass"] > 10
            await back(one)
            await known_again(one)

    run(scenario)


def reloaded(server: OwnRedis) -> None:
    with server.client() as client:
        client.execute_command("DEBUG", "RELOAD")


def test_redis_becomes_a_replica(own_redis: Begin) -> None:
    """C9: after a failover the old primary is read-only: hits stay hits, writes stop; a primary again, they resume."""
    server = own_redis()

    async def scenario() -> None:
        async with claimed(settings(server.url, pause=0.2)) as one:
            assert await one.ask("c1", "known") == "miss"
            with server.client() as client:
                client.replicaof("127.0.0.1", 1)
                assert await one.ask("c1", "known") == "hit"
                outcomes, seconds = await timed(one, 50, "read-only")
                assert outcomes == {"bypass": 50}
                assert seconds < 5
                assert one.cache.counts.unwritten["read-only"] >= 1
                client.replicaof("no", "one")
            await back(one)
            await known_again(one)

    run(scenario)


def test_the_password_is_changed(own_redis: Begin, caplog: pytest.LogCaptureFixture) -> None:
    """C9: with a password that is wrong by now requests go on; it is in no log; with the right one, all is well."""
    server = own_redis()
    with server.client() as client:
        client.config_set("requirepass", "first-secret")

    async def scenario() -> None:
        found = settings(server.url.replace("redis://", "redis://:first-secret@"))
        async with claimed(found) as one:
            assert await one.ask("c1", "q") == "miss"
            with server.client(password="first-secret") as client:
                client.config_set("requirepass", "second-secret")
                client.client_kill_filter(_type="normal", skipme=True)
                await asyncio.sleep(0.05)
                outcomes, seconds = await timed(one, 30, "locked out")
                assert outcomes == {"bypass": 30}
                assert seconds < 3
                client.config_set("requirepass", "first-secret")
                await back(one)
        locked_out = pod(settings(server.url))
        with pytest.raises(UnreachableError, match="Authentication required"):
            await locked_out.cache.claim()
        await locked_out.cache.close()
        assert "secret" not in caplog.text + repr(found)

    run(scenario)


def test_tls_needs_the_right_authority(own_redis: Begin, tmp_path: Path) -> None:
    """Over TLS the server's certificate and name are checked; another authority's server is not talked to."""
    server = own_redis()
    ours, theirs = certificate(tmp_path / "ours"), certificate(tmp_path / "theirs")

    async def scenario(port: int) -> None:
        for file, host, expected in ((ours, "127.0.0.1", "miss"), (theirs, "127.0.0.1", "bypass"),
                                     (ours, "localhost", "bypass")):
            environ = {"REDIS_URL": f"rediss://{host}:{port}", "REDIS_CA_FILE": str(file), "REDIS_BUDGET_MS": "5000"}
            one = pod(CacheSettings.from_environ(environ))
            if expected == "bypass":
                with pytest.raises(UnreachableError, match="certificate verify failed"):
                    await one.cache.claim()
            assert await one.ask("c1", "q") == expected
            await one.cache.close()

    with tls_in_front_of(("127.0.0.1", server.port), ours) as port:
        run(lambda: scenario(port))


def test_one_write_of_several_fails(own_redis: Begin, caplog: pytest.LogCaptureFixture) -> None:
    """C11: of several keys that are written together one is refused: it is named, and the others alone are counted."""
    server = own_redis()
    sub_queries = [f"s{number}" for number in range(5)]
    denied = f"rag_store:v1:{text_digest('5', 's2').hex()[:32]}"
    with server.client() as client:
        others = [f"~rag_store:v1:{text_digest('5', each).hex()[:32]}" for each in sub_queries if each != "s2"]
        rights = ("+@all", "%R~*", "~rag_meta:*", "~rag_decompose:*", *others)
        client.execute_command("ACL", "SETUSER", "pod", "on", "nopass", *rights)

    async def scenario() -> None:
        async with claimed(settings(server.url.replace("redis://", "redis://pod:x@"))) as one:
            assert await one.search(*sub_queries) == "bypass"
            assert (one.cache.counts.written, one.cache.counts.unwritten) == (4, {"refused": 1})
            with server.client() as client:
                assert client.exists(denied) == 0
                assert len(client.keys("rag_store:*")) == 4
            assert await one.search(*(each for each in sub_queries if each != "s2")) == "hit"
            assert await one.search("s2") == "bypass"
            assert one.cache.counts.written == 4
            assert await one.ask("c1", "q") == "miss"  # the server refused one key, not all writes

    run(scenario)
    assert f"Redis did not keep {denied}: NoPermissionError" in caplog.text


def test_no_log_names_a_customer(own_redis: Begin, caplog: pytest.LogCaptureFixture) -> None:
    """C11: a decomposition that was refused is named in the log by a digest, not by its customer."""
    server = own_redis()
    key = decompose_key("", "1", "anna@example.org", text_digest("q").hex()[:32])
    with server.client() as client:
        client.execute_command("ACL", "SETUSER", "pod", "on", "nopass", "+@all", "%R~*", "~rag_meta:*", "~*:lease")

    async def scenario() -> None:
        async with claimed(settings(server.url.replace("redis://", "redis://pod:x@"))) as one:
            assert await one.ask("anna@example.org", "q") == "bypass"
            assert one.cache.counts.unwritten == {"refused": 1}

    run(scenario)
    assert "Redis did not keep rag_decompose:v1:… (digest " in caplog.text
    assert "anna" not in caplog.text
    with server.client() as client:
        assert not client.exists(key)


def test_the_budget_of_a_request_covers_all_of_its_looks(own_redis: Begin) -> None:
    """C9: with one budget for both looks, a frozen server costs a request its budget once, not once for each."""
    server = own_redis()

    async def scenario() -> None:
        async with claimed(settings(server.url, budget=0.4)) as one:
            with server.frozen():
                budget = one.cache.budget()
                started = time.monotonic()
                assert await one.ask("c1", "q", budget=budget) == "bypass"
                first = time.monotonic() - started
                assert await one.search("s", budget=budget) == "bypass"
                assert first > 0.35
                assert time.monotonic() - started - first < 0.2

    run(scenario)


def test_without_redis_nothing_is_cached() -> None:
    """C9: a pod without REDIS_URL claims nothing, and answers."""

    async def scenario() -> None:
        async with claimed(settings("")) as one:
            assert await one.ask("c1", "q") == await one.search("s") == "bypass"

    run(scenario)
