"""One builder per key across pods: a short lease in Redis. A hint that saves work; correctness never rests on it."""

from __future__ import annotations

from collections.abc import Callable

from airflow_provider_ragops.workloads.serving.cache.client import Client
from airflow_provider_ragops.workloads.serving.cache.keys import lease_key
from airflow_provider_ragops.workloads.serving.cache.settings import Limits

# Its holder may have been slow, and the lease another's by now.
_RELEASE = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0"


class Leases:
    """:param token: makes a text that no other pod makes."""

    def __init__(self, client: Client, limits: Limits, token: Callable[[], str]) -> None:
        self._client, self._limits, self._token = client, limits, token

    async def take(self, key: str, seconds: float) -> str:
        """The lease's token; empty where another pod builds the key's value.

        :raises link.Unavailable, redis.exceptions.ResponseError: it can't be had.
        """
        token, lease = self._token(), lease_key(key)
        taken = await self._client.call(
            lease, "SET", lease, token, "NX", "PX", int(self._limits.lease * 1000), seconds=seconds
        )
        return token if taken else ""

    async def give_back(self, key: str, token: str, seconds: float) -> None:
        """:raises link.Unavailable, redis.exceptions.ResponseError: it ends by itself then."""
        lease = lease_key(key)
        await self._client.call(lease, "EVAL", _RELEASE, 1, lease, token, seconds=seconds)
