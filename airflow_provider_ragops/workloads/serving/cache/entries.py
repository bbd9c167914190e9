"""One version's values in Redis: look, take the turn to build, keep. Every failure becomes an outcome and a number."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any

from airflow_provider_ragops.workloads.serving.cache.budget import Budget
from airflow_provider_ragops.workloads.serving.cache.client import Clock
from airflow_provider_ragops.workloads.serving.cache.lease import Leases
from airflow_provider_ragops.workloads.serving.cache.link import Unavailable
from airflow_provider_ragops.workloads.serving.cache.marker import Marker
from airflow_provider_ragops.workloads.serving.cache.payload import Unfit
from airflow_provider_ragops.workloads.serving.cache.seals import Kind
from airflow_provider_ragops.workloads.serving.cache.settings import Limits
from airflow_provider_ragops.workloads.serving.cache.store import Store
from airflow_provider_ragops.workloads.serving.cache.values import Counts, Outcome

Sleep = Callable[[float], Awaitable[None]]
_FIRST_PAUSE, _LONGEST_PAUSE = 0.002, 0.05  # between two looks for what another pod builds


class Entries:
    def __init__(
        self, store: Store, marker: Marker, leases: Leases, limits: Limits, counts: Counts, clock: Clock, sleep: Sleep
    ) -> None:
        self._store, self._marker, self._leases, self._limits = store, marker, leases, limits
        self._counts, self._clock, self._sleep = counts, clock, sleep
        self._later: set[asyncio.Task[None]] = set()

    async def peek(self, asked: Sequence[tuple[str, bytes]], kind: Kind, budget: Budget) -> list[Any] | None:
        """The values of these keys and subjects where all of them are there and fit; counts nothing else."""
        if self._marker.is_lost:
            return None
        try:
            if len(asked) == 1:  # a round trip of one needs no tasks
                found = [await self._opened(*asked[0], kind, budget)]
            else:
                found = await asyncio.gather(*(self._opened(*each, kind, budget) for each in asked))
        except (Unfit, Unavailable):
            return None
        return None if any(each is None for each in found) else found

    async def look(self, key: str, subject: bytes, kind: Kind, budget: Budget) -> tuple[Any, Outcome]:
        if self._marker.is_lost:
            self._counts.bypasses[f"marker {self._marker.standing}"] += 1
            return None, "bypass"
        try:
            found = await self._opened(key, subject, kind, budget)
        except Unfit as error:
            self._counts.mismatches[str(error)] += 1
            return None, "mismatch"
        except Unavailable:
            self._counts.bypasses["unavailable"] += 1
            return None, "bypass"
        return (None, "miss") if found is None else (found, "hit")

    async def _opened(self, key: str, subject: bytes, kind: Kind, budget: Budget) -> Any:
        raw = await self._store.read(key, budget)
        return None if raw is None else kind.opened(subject, raw)

    async def may_write(self, marker_key: str, budget: Budget) -> bool:
        """Only while the marker is ours, and not while the server refuses writes."""
        from redis.exceptions import ResponseError

        if self._store.is_paused:
            self._counts.bypasses["writing paused"] += 1
            return False
        try:
            with budget.call() as seconds:
                if await self._marker.is_ours(seconds):
                    return True
            self._counts.bypasses[f"marker {self._marker.standing}"] += 1
        except (Unavailable, ResponseError) as error:
            self._counts.bypasses["unavailable"] += 1
            await self._store.refused(marker_key, error)
        return False

    async def turn(self, key: str, subject: bytes, kind: Kind, budget: Budget) -> tuple[Any, str]:
        """What another pod built meanwhile, or the lease to build; neither where that takes too long: build, then."""
        from redis.exceptions import ResponseError

        until, pause = self._clock() + self._limits.patience, _FIRST_PAUSE
        try:
            with budget.call() as seconds:
                token = await self._leases.take(key, seconds)
            while not token and self._clock() < until:
                await self._sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
                # Redis answers: this wait is for the builder, and not on the request's time for Redis.
                with suppress(Unfit):
                    found = await self._opened(key, subject, kind, Budget(self._limits.budget, self._clock))
                    if found is not None:
                        self._counts.waited += 1
                        return found, ""
                token = await self._leases.take(key, self._limits.budget)
        except (Unavailable, ResponseError) as error:
            await self._store.refused(key, error)
            return None, ""
        return None, token

    async def keep(self, values: dict[str, tuple[bytes, Any]], kind: Kind, budget: Budget) -> bool:
        """Write subjects and values by key; whether the server says that it wrote them all."""
        sealed: dict[str, bytes] = {}
        for key, (subject, value) in values.items():
            with suppress(Unfit):  # what was built is answered, but nothing else may ever read it
                sealed[key] = kind.sealed(subject, value)
        if len(sealed) < len(values):
            self._counts.unwritten["unfit"] += len(values) - len(sealed)
        written = await self._store.write(sealed, budget) if sealed else set()
        return len(written) == len(values)

    def give_back(self, key: str, token: str) -> None:
        """End the lease, in the background: the answer does not wait for it."""
        task = asyncio.get_running_loop().create_task(self._give_back(key, token))
        self._later.add(task)
        task.add_done_callback(self._later.discard)

    async def _give_back(self, key: str, token: str) -> None:
        from redis.exceptions import ResponseError

        with suppress(Unavailable, ResponseError):  # it ends by itself
            await self._leases.give_back(key, token, self._limits.budget)

    async def close(self) -> None:
        """What still runs has its own deadline."""
        await asyncio.gather(*self._later, return_exceptions=True)
