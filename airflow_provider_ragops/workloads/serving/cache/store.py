"""Reads and writes of values: bounded in size, always with a time to live, each key's failure its own."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from airflow_provider_ragops.workloads.serving.cache.budget import Budget
from airflow_provider_ragops.workloads.serving.cache.client import Client, Clock, gathered
from airflow_provider_ragops.workloads.serving.cache.keys import shown
from airflow_provider_ragops.workloads.serving.cache.link import Unavailable
from airflow_provider_ragops.workloads.serving.cache.payload import Unfit
from airflow_provider_ragops.workloads.serving.cache.settings import Limits
from airflow_provider_ragops.workloads.serving.cache.values import Counts

log = logging.getLogger(__name__)

_QUIET = 10.0  # seconds between two warnings about writes that failed
# The whole server refuses to write: it can't save, or has too few replicas.
_REFUSALS = ("MISCONF", "NOREPLICAS")


class Store:
    """:param random: a number from 0 to 1, for the jitter."""

    def __init__(
        self, client: Client, limits: Limits, counts: Counts, clock: Clock, random: Callable[[], float]
    ) -> None:
        self._client, self._limits, self._counts, self._clock, self._random = client, limits, counts, clock, random
        self._paused_until = float("-inf")
        self._quiet_until = float("-inf")

    @property
    def is_paused(self) -> bool:
        """The server refused to write a short while ago."""
        return self._clock() < self._paused_until

    async def read(self, key: str, budget: Budget) -> bytes | None:
        """The value; None where there is none.

        :raises Unfit: something else lies there, or it is too large.
        :raises Unavailable: Redis does not answer, or refuses.
        """
        from redis.exceptions import ResponseError

        try:
            with budget.call() as seconds:  # GETRANGE: a giant that someone put there is not transferred
                raw = await self._client.call(key, "GETRANGE", key, 0, self._limits.largest, seconds=seconds)
        except ResponseError as error:
            if str(error).startswith("WRONGTYPE"):
                raise Unfit("kind") from error
            raise Unavailable(str(error)[:200]) from error
        if len(raw) > self._limits.largest:
            raise Unfit("size")
        return raw or None

    async def write(self, values: Mapping[str, bytes], budget: Budget) -> set[str]:
        """The keys that the server says it wrote; the others are counted, and the first is named in the log."""
        fit = {key: raw for key, raw in values.items() if len(raw) <= self._limits.largest}
        for key in values.keys() - fit.keys():
            self._failed(key, "size", f"{len(values[key])} bytes, more than {self._limits.largest}")
        try:
            with budget.call() as seconds:
                results = await gathered({
                    key: self._client.call(key, "SET", key, raw, "PX", self._time_to_live(), seconds=seconds)
                    for key, raw in fit.items()
                })
        except Unavailable as error:
            results = dict.fromkeys(fit, error)
        for key, result in results.items():
            if isinstance(result, Exception):
                await self.refused(key, result)
        written = {key for key, result in results.items() if result == b"OK"}
        self._counts.written += len(written)
        return written

    async def refused(self, key: str, error: Exception) -> None:
        """Take note of a write that failed. Where the server refuses every write, none is tried for a while."""
        from redis.exceptions import OutOfMemoryError, ReadOnlyError

        text = str(error)
        if isinstance(error, OutOfMemoryError | ReadOnlyError) or text.startswith(_REFUSALS):
            self._paused_until = self._clock() + self._limits.pause
        if isinstance(error, ReadOnlyError):
            await self._client.renew()  # after a failover the same address may lead to the new primary
        reason = {Unavailable: "unavailable", OutOfMemoryError: "full", ReadOnlyError: "read-only"}
        self._failed(key, reason.get(type(error), "refused"), f"{type(error).__name__}: {text[:200]}")

    def _failed(self, key: str, reason: str, detail: str) -> None:
        self._counts.unwritten[reason] += 1
        if self._clock() >= self._quiet_until:
            self._quiet_until = self._clock() + _QUIET
            so_far = self._counts.unwritten[reason]
            log.warning("Redis did not keep %s: %s (%d such so far)", shown(key), detail, so_far)

    def _time_to_live(self) -> int:
        """Milliseconds. Keys that were written together must not end together."""
        return int(self._limits.ttl * (1 + self._limits.jitter * (2 * self._random() - 1)) * 1000)
