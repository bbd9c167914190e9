"""The cache of one loaded version: find a value, or build it once and keep it; whatever Redis does, answer.

.. code-block:: python

    cache = VersionCache.open(Identity(name, version, run, dimension), CacheSettings.from_environ(os.environ))
    await cache.claim()                                          # before the first request
    split, outcome = await cache.decomposition(customer, question, build)
    hits, outcome = await cache.hits(split.sub_queries, search)  # search() returns the hits of all sub-queries
    await cache.close()
"""

from __future__ import annotations

import asyncio
import random
import time
import uuid
from collections.abc import Awaitable, Callable, Hashable, Sequence
from functools import partial
from typing import Any

from airflow_provider_ragops.contract import text_digest
from airflow_provider_ragops.exceptions import UnreachableError
from airflow_provider_ragops.workloads.serving.cache import eviction
from airflow_provider_ragops.workloads.serving.cache.budget import Budget
from airflow_provider_ragops.workloads.serving.cache.client import Client, Clock, Nowhere, client_for
from airflow_provider_ragops.workloads.serving.cache.entries import Entries, Sleep
from airflow_provider_ragops.workloads.serving.cache.flights import BuilderGone, Flights, TooMany
from airflow_provider_ragops.workloads.serving.cache.keys import Keys
from airflow_provider_ragops.workloads.serving.cache.lease import Leases
from airflow_provider_ragops.workloads.serving.cache.link import Unavailable
from airflow_provider_ragops.workloads.serving.cache.marker import Marker, Standing
from airflow_provider_ragops.workloads.serving.cache.seals import Kind, decompositions, search_results
from airflow_provider_ragops.workloads.serving.cache.settings import CacheSettings
from airflow_provider_ragops.workloads.serving.cache.store import Store
from airflow_provider_ragops.workloads.serving.cache.values import (
    Counts,
    Decomposition,
    Hit,
    Identity,
    MakeHit,
    Outcome,
)

Build = Callable[[], Awaitable[Decomposition]]
Search = Callable[[], Awaitable[Sequence[Sequence[Any]]]]


class VersionCache:
    """:param client: ends with the cache.

    ``counts`` are plain numbers; ``evicts`` is what :func:`eviction.check` found, ``unknown`` before.
    """

    def __init__(
        self, identity: Identity, client: Client, settings: CacheSettings, *, make_hit: MakeHit = Hit,
        clock: Clock = time.monotonic, sleep: Sleep = asyncio.sleep,
        random: Callable[[], float] = random.random, token: Callable[[], str] = lambda: uuid.uuid4().hex,
    ) -> None:
        limits = settings.limits
        self._identity, self._client, self._settings, self._limits = identity, client, settings, limits
        self._clock = clock
        self._keys = Keys(settings.prefix, identity.version, client.is_cluster)
        self._splits, self._found = decompositions(identity), search_results(identity, make_hit)
        self.counts = Counts()
        self.evicts: eviction.Evicts = "unknown"
        self._marker = Marker(identity, self._keys.marker, client, limits, clock)
        store, leases = Store(client, limits, self.counts, clock, random), Leases(client, limits, token)
        self._entries = Entries(store, self._marker, leases, limits, self.counts, clock, sleep)
        self._flights = Flights(limits.flights)

    @classmethod
    def open(cls, identity: Identity, settings: CacheSettings, **options: Any) -> VersionCache:
        """Connects when it is used first; needs no running event loop."""
        return cls(identity, client_for(settings.server, settings.limits), settings, **options)

    @property
    def version(self) -> str:
        return self._identity.version

    @property
    def standing(self) -> Standing:
        """What the last look at the marker found."""
        return self._marker.standing

    def budget(self) -> Budget:
        """For the looks of one request together; without one each look has its own."""
        return Budget(self._limits.budget, self._clock)

    async def claim(self) -> None:
        """Check the server's eviction policy, and write or check the marker. May be called again at any time.

        :raises CacheKeyCollisionError: the marker names another model, training run or dimension.
        :raises ConfigurationError: the server may evict other applications' keys.
        :raises UnreachableError: Redis does not say; requests are answered without it, and claim when they can.
        """
        from redis.exceptions import ResponseError

        if isinstance(self._client, Nowhere):
            return
        try:
            if self.evicts == "unknown":
                may_evict = self._settings.may_evict
                self.evicts = await eviction.check(self._client, self._limits.connect, may_evict=may_evict)
            await self._marker.claim(self._limits.connect)
        except (Unavailable, ResponseError) as error:
            raise self._unreachable(f"an answer within {self._limits.connect:g} s", str(error)[:200],
                                    "Check its address, password and rights; see docs/redis.md.") from error
        if self.standing == "missing":
            raise self._unreachable(f"marker {self._keys.marker}", "it was evicted or removed",
                                    f"It is written again {self._limits.reclaim:g} s after it was missed.")

    def _unreachable(self, expected: str, seen: str, action: str) -> UnreachableError:
        subject = f"Redis at {self._settings.server.address}"
        return UnreachableError(subject, expected=expected, seen=seen, action=action)

    async def decomposition(
        self, customer_id: str | None, question: str, build: Build, *, budget: Budget | None = None,
    ) -> tuple[Decomposition, Outcome]:
        """The question's decomposition for this customer. A request without a customer is not cached.

        ``build`` may go on when its caller has left, and serve others. Its errors are told to the callers.
        """
        if not customer_id:
            return await self._alone(build, "no customer")
        key, subject = self._keys.decomposition(customer_id, text_digest(question)), text_digest(customer_id, question)
        budget = budget or self.budget()
        if found := await self._peek(key, [(key, subject)], self._splits, budget):
            return found[0], "hit"
        work = partial(self._decomposed, key, subject, build, budget)
        answer: tuple[Decomposition, Outcome] = await self._shared(key, work, build)
        return answer

    async def hits(
        self, sub_queries: Sequence[str], search: Search, *, k: int = 5, budget: Budget | None = None,
    ) -> tuple[Sequence[Sequence[Any]], Outcome]:
        """The hits of each sub-query, the same for all customers. ``hit`` only where all of them were there.

        :param search: finds the hits of all sub-queries, in their order: one matrix product costs as much for one.
        """
        asked = [text_digest(str(k), each) for each in sub_queries]
        order = tuple(map(self._keys.hits, asked))
        subjects = dict(zip(order, asked, strict=True))
        budget = budget or self.budget()
        if (found := await self._peek(order, list(subjects.items()), self._found, budget)) is not None:
            values = dict(zip(subjects, found, strict=True))
            return tuple(values[key] for key in order), "hit"
        work = partial(self._searched, order, subjects, search, budget)
        answer: tuple[Sequence[Sequence[Any]], Outcome] = await self._shared(order, work, search)
        return answer

    async def close(self) -> None:
        """End all builders and the connections."""
        await self._flights.close()
        await self._entries.close()
        await self._client.close()

    async def _peek(
        self, flight: Hashable, asked: Sequence[tuple[str, bytes]], kind: Kind, budget: Budget
    ) -> list[Any] | None:
        """The common case first, without a task: everything is there. What is being built is waited for instead."""
        found = None if flight in self._flights else await self._entries.peek(asked, kind, budget)
        if found is not None:
            self.counts.outcomes["hit"] += 1
        return found

    async def _shared(self, key: Any, work: Callable[[], Awaitable[Any]], build: Callable[[], Awaitable[Any]]) -> Any:
        try:
            (value, outcome), is_shared = await self._flights.share(key, work)
        except TooMany:
            return await self._alone(build, "too many builders")
        except BuilderGone:
            return await self._alone(build, "builder gone")
        if is_shared:
            self.counts.shared += 1
            outcome = "bypass" if outcome == "bypass" else "hit"
        self.counts.outcomes[outcome] += 1
        return value, outcome

    async def _alone(self, build: Callable[[], Awaitable[Any]], reason: str) -> tuple[Any, Outcome]:
        self.counts.bypasses[reason] += 1
        self.counts.outcomes["bypass"] += 1
        return await self._built(build), "bypass"

    async def _built(self, build: Callable[[], Awaitable[Any]]) -> Any:
        self.counts.built += 1
        return await build()

    async def _decomposed(self, key: str, subject: bytes, build: Build, budget: Budget) -> tuple[Any, Outcome]:
        value, outcome = await self._entries.look(key, subject, self._splits, budget)
        if outcome == "hit":
            return value, outcome
        if outcome == "bypass" or not await self._entries.may_write(self._keys.marker, budget):
            return await self._built(build), _unkept(outcome)
        value, token = await self._entries.turn(key, subject, self._splits, budget)
        if value is not None:
            return value, "hit"
        try:
            value = await self._built(build)
            kept = await self._entries.keep({key: (subject, value)}, self._splits, budget)
        finally:
            if token:
                self._entries.give_back(key, token)
        return value, outcome if kept else _unkept(outcome)

    async def _searched(
        self, order: Sequence[str], subjects: dict[str, bytes], search: Search, budget: Budget,
    ) -> tuple[Any, Outcome]:
        looks = dict(zip(subjects, await asyncio.gather(
            *(self._entries.look(key, subject, self._found, budget) for key, subject in subjects.items())
        ), strict=True))
        outcomes = {outcome for _, outcome in looks.values()}
        if outcomes <= {"hit"}:
            return tuple(looks[key][0] for key in order), "hit"
        outcome: Outcome = next(each for each in ("mismatch", "bypass", "miss") if each in outcomes)
        if "bypass" in outcomes or not await self._entries.may_write(self._keys.marker, budget):
            return await self._built(search), _unkept(outcome)
        found = await self._built(search)
        # A search that finds another number of hits than it was asked for is not kept: zip would mistake them.
        answered = dict(zip(order, found, strict=True)) if len(found) == len(order) else {}
        lacking = {key: (subjects[key], hits) for key, hits in answered.items() if looks[key][1] != "hit"}
        kept = bool(lacking) and await self._entries.keep(lacking, self._found, budget)
        return found, outcome if kept else _unkept(outcome)


def _unkept(outcome: Outcome) -> Outcome:
    return "mismatch" if outcome == "mismatch" else "bypass"
