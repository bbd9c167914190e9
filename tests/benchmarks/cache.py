"""A cache hit and a Redis round trip of a serving pod, beside a plain GET of redis.asyncio; Valkey on loopback.

Each caller has a customer of its own; all three first read the values and assert that they are the same bytes. Rounds
alternate, so that a busy machine slows all of them alike; each line sums up all rounds. ``hit`` is the whole look: key,
round trip, checksum, identity, vectors.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import redis.asyncio
import uvloop
from demo import services
from demo.background import Background

from airflow_provider_ragops.contract import decompose_key, text_digest
from tests.pods import Pod, pod, settings

#: Takes the number of the caller.
Call = Callable[[int], Awaitable[object]]
DIMENSION = 384


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=2000, help="calls of each kind in a round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--concurrency", type=int, nargs="+", default=[1, 32])
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        background = Background(Path(folder))
        service = services.redis(Path(folder) / "data", "127.0.0.1", services.free_port("127.0.0.1"))
        background.start(service)
        try:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:  # as the serving image has it
                runner.run(compare(service.address, asked.calls, asked.rounds, asked.concurrency))
        finally:
            background.stop_all()


async def compare(url: str, calls: int, rounds: int, concurrencies: list[int]) -> None:
    one = pod(settings(url, budget=5.0), dimension=DIMENSION)
    await one.cache.claim()
    keys = [decompose_key("", "1", str(caller), text_digest("q").hex()[:32]) for caller in range(max(concurrencies))]
    plain = redis.asyncio.Redis.from_url(url)
    link = one.cache._client
    for caller, key in enumerate(keys):
        assert await one.ask(str(caller), "q") == "miss"
        assert await plain.get(key) == await link.call(key, "GET", key, seconds=5.0) is not None
        assert await one.ask(str(caller), "q") == "hit"
    kinds: dict[str, Call] = {
        "hit": lambda caller: hit(one, str(caller)),
        "round trip": lambda caller: link.call(keys[caller], "GETRANGE", keys[caller], 0, 262_144, seconds=5.0),
        "redis.asyncio GET": lambda caller: plain.get(keys[caller]),
    }
    size = len(await plain.get(keys[0]))
    for concurrency in concurrencies:
        seconds: dict[str, list[float]] = {name: [] for name in kinds}
        wall = dict.fromkeys(kinds, 0.0)
        for call in kinds.values():
            await measured(call, 200, concurrency)  # warm
        for _ in range(rounds):
            for name, call in kinds.items():
                started = time.perf_counter()
                seconds[name] += await measured(call, calls, concurrency)
                wall[name] += time.perf_counter() - started
        for name in kinds:
            report(name, concurrency, size, seconds[name], wall[name])
    assert one.cache.counts.outcomes["hit"] == one.cache.counts.outcomes.total() - len(keys)
    await plain.aclose()
    await one.cache.close()


async def hit(one: Pod, customer: str) -> None:
    async def never() -> None:
        raise AssertionError("the value is there")

    await one.cache.decomposition(customer, "q", never)  # type: ignore[arg-type]


async def measured(call: Call, calls: int, concurrency: int) -> list[float]:
    found: list[float] = []

    async def caller(number: int) -> None:
        for _ in range(calls // concurrency):
            started = time.perf_counter()
            await call(number)
            found.append(time.perf_counter() - started)

    await asyncio.gather(*map(caller, range(concurrency)))
    return found


def report(name: str, concurrency: int, size: int, seconds: list[float], wall: float) -> None:
    cuts = statistics.quantiles(seconds, n=100)
    print(json.dumps({
        "benchmark": "cache", "what": name, "concurrency": concurrency, "bytes": size,
        "calls": len(seconds), "per_second": round(len(seconds) / wall),
        "p50_ms": round(cuts[49] * 1000, 4), "p99_ms": round(cuts[98] * 1000, 4),
    }), flush=True)


if __name__ == "__main__":
    main()
