"""Redis keys as serving writes them, for tests on a real server."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit

import redis

from airflow_provider_ragops.contract import (
    MARKER_DIMENSION,
    MARKER_MODEL,
    MARKER_RUN,
    decompose_key,
    marker_key,
    store_prefix,
)

CUSTOMERS = ("c0", "c1", "c2")


def database(url: str, number: int) -> str:
    """The URL of another database of that server: what a URL names wins over redis-py's ``db``."""
    return urlsplit(url)._replace(path=f"/{number}").geturl()


def connect(url: str, number: int = 0) -> redis.Redis:
    return redis.Redis.from_url(
        database(url, number), decode_responses=True, encoding_errors="surrogateescape", socket_timeout=5
    )


def keys_of(prefix: str, version: str, customers: Iterable[str] = CUSTOMERS) -> set[str]:
    """One key of each family per customer."""
    return {key for customer in customers
            for key in (decompose_key(prefix, version, customer, "q"), f"{store_prefix(prefix, version)}{customer}")}


def marker(model: str, run: str) -> Mapping[str, str]:
    return {MARKER_MODEL: model, MARKER_RUN: run, MARKER_DIMENSION: "384"}


def fill(
    client: Any, prefix: str, version: str, model: str = "M", run: str | None = None,
    customers: Iterable[str] = CUSTOMERS,
) -> set[str]:
    """Write a version's marker and keys; the names of all of them."""
    keys = keys_of(prefix, version, customers)
    mark(client, prefix, version, model, run)
    write(client, keys)
    return keys | {marker_key(prefix, version)}


def mark(client: Any, prefix: str, version: str, model: str = "M", run: str | None = None) -> None:
    client.hset(marker_key(prefix, version), mapping=marker(model, run or f"run-{version}"))


def write(client: Any, keys: Iterable[str]) -> None:
    with client.pipeline(transaction=False) as pipeline:
        for key in keys:
            pipeline.set(key, "x", ex=600)
        pipeline.execute()


def names(client: Any) -> set[str]:
    """All keys of the database, or of the whole cluster."""
    return set(client.scan_iter(match="*", count=1000))
