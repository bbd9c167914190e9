"""Whether the server may evict keys that are not the cache's. Feast's online store may lie on the same Redis."""

from __future__ import annotations

import logging
from typing import Any, Literal

from airflow_provider_ragops import contract
from airflow_provider_ragops.exceptions import ConfigurationError
from airflow_provider_ragops.workloads.serving.cache.client import Client

log = logging.getLogger(__name__)

#: ``any``: whatever lies there; ``expiring``: keys with a time to live, others' among them; ``none``: writes fail
#: when it is full; ``unknown``: the server does not say.
Evicts = Literal["any", "expiring", "none", "unknown"]


def evicts(policy: str, maxmemory: int | None) -> Evicts:
    """:param maxmemory: bytes; 0 for no limit, None where the server does not say."""
    if policy == "noeviction" or maxmemory == 0:
        return "none"
    if policy.startswith("allkeys-"):
        return "any"
    return "expiring" if policy.startswith("volatile-") else "unknown"


async def check(client: Client, seconds: float, *, may_evict: bool) -> Evicts:
    """Ask every server; the worst answer.

    :param may_evict: nothing else lies there; any policy is fine.
    :raises ConfigurationError: one may evict any key.
    :raises link.Unavailable: Redis does not answer.
    """
    found = {address: evicts(*told) for address, told in (await _policies(client, seconds)).items()}
    for address, what in found.items():
        if what == "any" and not may_evict:
            raise ConfigurationError(
                f"Redis at {address}", expected="a maxmemory-policy that evicts no other application's keys",
                seen="an allkeys policy, which may evict Feast's online store", action=f"Set noeviction or a volatile "
                f"policy, or {contract.ENV_REDIS_MAY_EVICT}=true where nothing but this cache lies there.",
            )
        if what == "expiring" and not may_evict:
            log.warning("Redis at %s: its policy may evict other applications' keys that have a time to live", address)
        if what == "unknown":
            log.warning("Redis at %s does not say its maxmemory-policy: it may evict others' keys", address)
    order: tuple[Evicts, ...] = ("any", "unknown", "expiring", "none")
    return next(each for each in order if each in found.values())


async def _policies(client: Client, seconds: float) -> dict[str, tuple[str, int | None]]:
    from redis.exceptions import ResponseError

    try:  # readable on most managed servers, where CONFIG is not
        told = await client.everywhere("INFO", "memory", seconds=seconds)
        found = {address: _of_info(reply) for address, reply in told.items()}
        if all(policy for policy, _ in found.values()):
            return found
    except ResponseError:
        pass  # not allowed: ask the other way
    try:
        told = await client.everywhere("CONFIG", "GET", "maxmemory*", seconds=seconds)
    except ResponseError:
        return {"its address": ("", None)}
    return {address: _of_config(reply) for address, reply in told.items()}


def _of_info(reply: Any) -> tuple[str, int | None]:
    fields = dict(line.split(":", 1) for line in bytes(reply).decode(errors="replace").split("\r\n") if ":" in line)
    return fields.get("maxmemory_policy", ""), _whole(fields.get("maxmemory"))


def _of_config(reply: Any) -> tuple[str, int | None]:
    texts = [bytes(part).decode(errors="replace") for part in reply]
    fields = dict(zip(texts[::2], texts[1::2], strict=True))
    return fields.get("maxmemory-policy", ""), _whole(fields.get("maxmemory"))


def _whole(text: str | None) -> int | None:
    return int(text) if text and text.isdecimal() else None
