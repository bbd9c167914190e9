"""Serving pods as the cache sees them: one process each, with its own connection; and a model that counts its work."""

from __future__ import annotations

import asyncio
import zlib
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from airflow_provider_ragops.workloads.serving.cache.settings import CacheSettings, Limits
from airflow_provider_ragops.workloads.serving.cache.values import Decomposition, Hit, Identity, Outcome
from airflow_provider_ragops.workloads.serving.cache.version_cache import VersionCache

DIMENSION = 8


@dataclass
class Pod:
    """Its answers say which version and run made them, for which question."""

    cache: VersionCache
    identity: Identity
    seconds: float = 0.0
    built: Counter[str] = field(default_factory=Counter)

    async def ask(self, customer: str | None, question: str, **options: Any) -> Outcome:
        """Ask for a decomposition, assert that it is this pod's and this question's, and tell how it came."""
        split, outcome = await self.cache.decomposition(customer, question, lambda: self.build(question), **options)
        expected = self.split(question)
        assert split.sub_queries == expected.sub_queries
        assert np.array_equal(split.vectors, expected.vectors)
        assert split.vectors.dtype == np.float32
        return outcome

    async def search(self, *sub_queries: str, **options: Any) -> Outcome:
        async def found() -> tuple[tuple[Hit, ...], ...]:
            self.built["search"] += 1
            return tuple(map(self.found, sub_queries))

        hits, outcome = await self.cache.hits(sub_queries, found, **options)
        assert tuple(hits) == tuple(map(self.found, sub_queries))
        return outcome

    async def build(self, question: str) -> Decomposition:
        self.built[question] += 1
        await asyncio.sleep(self.seconds)
        return self.split(question)

    def split(self, question: str) -> Decomposition:
        label = f"{self.identity.model} {self.identity.version} {self.identity.run}: {question}"
        seed = np.random.default_rng(zlib.crc32(label.encode(errors="surrogatepass")))
        return Decomposition((label, question), seed.random((2, self.identity.dimension), np.float32))

    def found(self, sub_query: str) -> tuple[Hit, ...]:
        return (Hit(f"{self.identity.version} {self.identity.run}: {sub_query}", 0.75), Hit("p", 1 / 3))


def settings(url: str, prefix: str = "", *, is_cluster: bool = False, may_evict: bool = False, **limits: float,
             ) -> CacheSettings:
    """As pods have them; only a connection may take long: a busy test machine can pause for more than a second."""
    environ = {"REDIS_URL": url, "REDIS_CLUSTER": str(is_cluster).lower()}
    found = CacheSettings.from_environ(environ)
    return replace(found, prefix=prefix, may_evict=may_evict, limits=replace(Limits(connect=10.0), **limits))  # type: ignore[arg-type]


def pod(
    found: CacheSettings, version: str = "1", run: str | None = None, model: str = "M", dimension: int = DIMENSION,
    **options: Any,
) -> Pod:
    identity = Identity(model, version, run or f"run-{version}", dimension)
    return Pod(VersionCache.open(identity, found, **options), identity)


def run(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run it in a loop of its own, and assert that it leaves no task behind."""

    async def whole() -> None:
        await scenario()
        await asyncio.sleep(0)
        left = asyncio.all_tasks() - {asyncio.current_task()}
        assert not left

    asyncio.run(whole())


async def eventually(check: Callable[[], Awaitable[bool]], seconds: float = 20.0, pause: float = 0.05) -> None:
    async with asyncio.timeout(seconds):
        while not await check():
            await asyncio.sleep(pause)
