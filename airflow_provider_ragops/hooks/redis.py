"""Redis shared by a serving target's pods, through Airflow's connection of type ``redis``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from airflow.sdk import BaseHook

from airflow_provider_ragops.exceptions import MissingExtraError, UnreachableError

CONNECT_TIMEOUT = 5.0
TIMEOUT = 10.0


@contextmanager
def redis_client(conn_id: str) -> Iterator[Any]:
    """A client with deadlines and decoded answers; ``{"ssl": true}`` in the connection's extra switches TLS on.

    :raises UnreachableError: when the server does not answer, or refuses, inside the block.
    """
    try:
        import redis
    except ImportError as error:
        raise MissingExtraError.of(f"connection {conn_id!r}", "redis", "redis") from error
    connection = BaseHook.get_connection(conn_id)
    address = f"{connection.host or 'localhost'}:{connection.port or 6379}"
    client = redis.Redis(
        host=connection.host or "localhost", port=connection.port or 6379, db=int(connection.schema or 0),
        username=connection.login or None, password=connection.password or None,
        ssl=bool(connection.extra_dejson.get("ssl")), decode_responses=True,
        socket_timeout=TIMEOUT, socket_connect_timeout=CONNECT_TIMEOUT,
    )
    try:
        with client:
            yield client
    except redis.RedisError as error:
        raise UnreachableError(
            f"Redis at {address} (connection {conn_id!r})", expected=f"an answer within {TIMEOUT:g} s",
            seen=f"{type(error).__name__}: {error}", action="Check that it runs, the address and the password.",
        ) from error
