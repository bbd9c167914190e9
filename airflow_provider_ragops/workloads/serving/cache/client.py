"""How the cache asks Redis: a single server, a cluster, or none. Each command names one key, so none crosses slots."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from airflow_provider_ragops.workloads.serving.cache.breaker import Breaker
from airflow_provider_ragops.workloads.serving.cache.link import Link, Unavailable
from airflow_provider_ragops.workloads.serving.cache.settings import Limits, Server

Clock = Callable[[], float]


class Client(Protocol):
    """:meth:`call` and :meth:`everywhere` raise what :meth:`link.Link.call` raises."""

    @property
    def is_cluster(self) -> bool: ...

    async def call(self, key: str, *command: Any, seconds: float) -> Any:
        """Send a command to the server that holds the key."""

    async def everywhere(self, *command: Any, seconds: float) -> dict[str, Any]:
        """Send it to every server that takes writes; the replies by address."""

    async def renew(self) -> None:
        """Leave the connections: their addresses may lead to other servers by now."""

    async def close(self) -> None: ...


class Nowhere:
    """There is no Redis."""

    is_cluster = False

    async def call(self, key: str, *command: Any, seconds: float) -> Any:  # noqa: ARG002
        raise Unavailable("no Redis is configured")

    async def everywhere(self, *command: Any, seconds: float) -> dict[str, Any]:  # noqa: ARG002
        raise Unavailable("no Redis is configured")

    async def renew(self) -> None:
        return None

    async def close(self) -> None:
        return None


class Single:
    is_cluster = False

    def __init__(self, server: Server, limits: Limits, clock: Clock = time.monotonic) -> None:
        self._address = server.address
        self.link = link_to(server, server.host, server.port, limits, clock)

    async def call(self, key: str, *command: Any, seconds: float) -> Any:  # noqa: ARG002  one server holds all keys
        return await self.link.call(command, seconds=seconds)

    async def everywhere(self, *command: Any, seconds: float) -> dict[str, Any]:
        return {self._address: await self.link.call(command, seconds=seconds)}

    async def renew(self) -> None:
        self.link.renew()

    async def close(self) -> None:
        await self.link.close()


def link_to(server: Server, host: str, port: int, limits: Limits, clock: Clock) -> Link:
    return Link(opener(server, host, port, limits), Breaker(f"{host}:{port}", clock), limits, clock)


def opener(server: Server, host: str, port: int, limits: Limits) -> Callable[[], Awaitable[Any]]:
    """Makes connections of redis-py that retry nothing: what a lost reply did is not known."""

    async def opened() -> Any:
        from redis.asyncio.connection import Connection, SSLConnection

        settings: dict[str, Any] = {
            "host": host, "port": port, "db": server.database, "username": server.username,
            "password": server.password, "socket_connect_timeout": limits.connect, "socket_keepalive": True,
        }
        if server.is_tls:
            files = (("ssl_ca_certs", server.ca_file), ("ssl_certfile", server.cert_file),
                     ("ssl_keyfile", server.key_file))
            connection: Any = SSLConnection(**settings | {name: file for name, file in files if file})
        else:
            connection = Connection(**settings)
        try:
            await connection.connect()
        except BaseException:  # a cancellation, too, must not leave it open
            await connection.disconnect(nowait=True)
            raise
        return connection

    return opened


def client_for(server: Server, limits: Limits, clock: Clock = time.monotonic) -> Client:
    """Opens nothing yet; needs no running event loop."""
    from airflow_provider_ragops.workloads.serving.cache.cluster import Cluster

    if not server.host:
        return Nowhere()
    return Cluster(server, limits, clock) if server.is_cluster else Single(server, limits, clock)


async def gathered(calls: dict[str, Awaitable[Any]]) -> dict[str, Any]:
    """The results by name, errors among them as values: one that failed says nothing about the others."""
    results = await asyncio.gather(*calls.values(), return_exceptions=True)
    found = dict(zip(calls, results, strict=True))
    for result in results:
        if isinstance(result, BaseException) and not isinstance(result, Exception):
            raise result
    return found
