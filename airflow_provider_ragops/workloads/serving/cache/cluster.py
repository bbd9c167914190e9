"""A Redis cluster: which primary holds a slot, and following it when slots move.

Each primary has a link and a breaker of its own: one that is gone turns the cache off for its third of the keys only.
"""

from __future__ import annotations

import asyncio
from typing import Any

from airflow_provider_ragops.workloads.serving.cache.client import Clock, gathered, link_to
from airflow_provider_ragops.workloads.serving.cache.link import Link, Unavailable
from airflow_provider_ragops.workloads.serving.cache.settings import Limits, Server

_REDIRECTS = 3
_REFRESH = 1.0  # seconds between two looks at the cluster's map at most
_ASKING = ("ASKING",)

Address = tuple[str, int]


class Cluster:
    """:param server: any node; the others are asked for."""

    is_cluster = True

    def __init__(self, server: Server, limits: Limits, clock: Clock) -> None:
        self._server, self._limits, self._clock = server, limits, clock
        self._seed: Address = (server.host, server.port)
        self._links: dict[Address, Link] = {}
        self._slots: dict[int, Address] = {}
        self._refreshing: asyncio.Task[None] | None = None
        self._next_refresh = 0.0
        self._is_closed = False

    async def call(self, key: str, *command: Any, seconds: float) -> Any:
        from redis.crc import key_slot
        from redis.exceptions import AskError, ClusterDownError, MovedError

        until = self._clock() + seconds
        slot = key_slot(key.encode())
        address = await self._owner(slot, seconds)
        commands: tuple[tuple[Any, ...], ...] = (command,)
        for _ in range(_REDIRECTS + 1):
            if (left := until - self._clock()) <= 0:
                break
            try:
                return await self._link(address).call(*commands, seconds=left)
            except MovedError as moved:
                address = self._slots[slot] = _named(moved, address)
                commands = (command,)
                self._refresh()
            except AskError as asked:
                address, commands = _named(asked, address), (_ASKING, command)
            except ClusterDownError as error:
                self._refresh()
                raise Unavailable("the cluster is down") from error
            except Unavailable:
                self._refresh()
                raise
        raise Unavailable(f"slot {slot} moved again and again")

    async def everywhere(self, *command: Any, seconds: float) -> dict[str, Any]:
        await self._owner(0, seconds)
        primaries = sorted(set(self._slots.values()))
        found = await gathered({
            f"{host}:{port}": self._link((host, port)).call(command, seconds=seconds) for host, port in primaries
        })
        for reply in found.values():
            if isinstance(reply, Exception):
                raise reply
        return found

    async def renew(self) -> None:
        for link in self._links.values():
            link.renew()
        self._refresh()

    async def close(self) -> None:
        self._is_closed = True
        if self._refreshing is not None:
            self._refreshing.cancel()
            await asyncio.gather(self._refreshing, return_exceptions=True)
        await asyncio.gather(*(link.close() for link in self._links.values()))

    async def _owner(self, slot: int, seconds: float) -> Address:
        if not self._slots:
            self._refresh()
            if self._refreshing is not None:
                try:
                    async with asyncio.timeout(seconds):
                        await asyncio.shield(self._refreshing)
                except TimeoutError:
                    raise Unavailable("no map of the cluster in time") from None
        if slot not in self._slots:
            self._refresh()
            raise Unavailable(f"no primary is known for slot {slot}")
        return self._slots[slot]

    def _link(self, address: Address) -> Link:
        if address not in self._links:
            self._links[address] = link_to(self._server, *address, self._limits, self._clock)
        return self._links[address]

    def _refresh(self) -> None:
        """Look at the cluster's map again, at most once a second; in the background, for the next requests."""
        if self._is_closed or self._refreshing is not None or self._clock() < self._next_refresh:
            return
        self._next_refresh = self._clock() + _REFRESH
        self._refreshing = asyncio.get_running_loop().create_task(self._read_map())
        self._refreshing.add_done_callback(self._refreshed)

    def _refreshed(self, _: asyncio.Task[None]) -> None:
        self._refreshing = None

    async def _read_map(self) -> None:
        """The first node that answers; a dead one is asked only where no other knows."""
        from redis.exceptions import RedisError

        known = sorted({*self._slots.values()} - {self._seed})
        for address in sorted([self._seed, *known], key=lambda each: self._link(each).breaker.is_open):
            try:
                ranges = await self._link(address).call(("CLUSTER", "SLOTS"), seconds=self._limits.connect)
            except (Unavailable, RedisError):
                continue
            self._slots = {
                slot: (_text(node[0]) or address[0], int(node[1]))
                for first, last, node, *_ in ranges for slot in range(int(first), int(last) + 1)
            }
            await self._forget(set(self._slots.values()) | {self._seed})
            return

    async def _forget(self, kept: set[Address]) -> None:
        for address in self._links.keys() - kept:
            await self._links.pop(address).close()


def _named(redirection: Any, asked: Address) -> Address:
    return (redirection.host or asked[0], int(redirection.port))


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value or "")
