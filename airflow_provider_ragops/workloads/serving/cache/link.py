"""One connection to one server, which all requests share.

Commands of one turn of the event loop leave together, and replies come back in their order. A request that stops
waiting (its time is up, its caller left) leaves its place in the row: the reply is read and dropped, and the
connection stays. So a pod needs one connection per server, and a slow server costs no reconnecting.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from airflow_provider_ragops.workloads.serving.cache.breaker import Breaker
from airflow_provider_ragops.workloads.serving.cache.settings import Limits

Command = tuple[Any, ...]
_MOST_UNSENT = 8 * 1024 * 1024  # bytes that a server which does not read may leave with us


class Unavailable(Exception):
    """Redis can't be asked now; the text says why. Never leaves the cache's package."""


class Link:
    """:param connect: makes and opens a connection of redis-py, authenticated and on its database."""

    def __init__(
        self, connect: Callable[[], Awaitable[Any]], breaker: Breaker, limits: Limits, clock: Callable[[], float]
    ) -> None:
        self._connect, self.breaker, self._limits, self._clock = connect, breaker, limits, clock
        self._connection: Any = None
        self._connecting: asyncio.Task[Any] | None = None
        self._probing: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._waiting: deque[asyncio.Future[Any]] = deque()
        self._unsent: list[bytes] = []
        self._is_closed = False

    async def call(self, *commands: Command, seconds: float) -> Any:
        """Send the commands one after another; the reply of the last.

        :raises Unavailable: no reply in time, no connection, or the breaker is open.
        :raises redis.exceptions.ResponseError: the server's own error.
        """
        if self.breaker.is_open or self._is_closed:
            self._probe_when_due()
            raise Unavailable(self.breaker.reason or "closed")
        started = self._clock()
        try:
            async with asyncio.timeout(seconds):
                if self._connection is None:
                    await asyncio.shield(self._connected())
                return await self._send(commands)
        except TimeoutError:
            waited = self._clock() - started
            # A wait that the caller's budget cut short says little; one that took far longer than it was to take
            # says that this process was busy, not the server.
            if self._limits.budget / 2 <= seconds and waited < 2 * seconds:
                self._failed(f"no answer within {seconds * 1000:.0f} ms")
            raise Unavailable("no answer in time") from None

    def _send(self, commands: tuple[Command, ...]) -> asyncio.Future[Any]:
        if self._connection is None:
            raise Unavailable("the connection was lost")
        unsent = self._connection._writer.transport.get_write_buffer_size()
        if len(self._waiting) >= self._limits.waiting or unsent > _MOST_UNSENT:
            raise Unavailable("too many wait")
        if not self._unsent:
            asyncio.get_running_loop().call_soon(self._flush)
        for command in commands:
            reply = asyncio.get_running_loop().create_future()
            self._waiting.append(reply)
            self._unsent.extend(self._connection.pack_command(*command))
            reply.add_done_callback(_looked_at)
        return reply

    def _flush(self) -> None:
        if self._connection is not None and self._unsent:
            # Not send_packed_command: it closes the connection for all where one caller is cancelled.
            self._connection._writer.writelines(self._unsent)
        self._unsent = []

    def _connected(self) -> asyncio.Task[Any]:
        if self._connecting is None or self._connecting.done():
            self._connecting = self._started(self._make())
        return self._connecting

    async def _make(self) -> None:
        from redis.exceptions import RedisError

        try:
            async with asyncio.timeout(self._limits.connect):
                connection = await self._connect()
        except (RedisError, OSError, TimeoutError) as error:  # builtin TimeoutError: asyncio's
            reason = f"{type(error).__name__}: {error}" if str(error) else f"no connection: {type(error).__name__}"
            self._failed(reason[:200])
            raise Unavailable(reason[:200]) from error
        if self._is_closed:
            await connection.disconnect(nowait=True)
            raise Unavailable("closed")
        self._connection = connection
        self._started(self._read(connection))

    async def _read(self, connection: Any) -> None:
        """Give each reply to whom it is for, until the connection ends."""
        from redis.exceptions import RedisError, ResponseError

        reason = "the connection was closed"
        try:
            while True:
                try:
                    reply = await connection.read_response(disconnect_on_error=False)
                except ResponseError as error:
                    reply = error
                if not self._answer(reply):
                    reason = "a reply that nobody asked for"
                    break
        except (RedisError, OSError) as error:
            reason = f"{type(error).__name__}: {error}"[:200]
        finally:
            if self._connection is connection:
                if self._waiting:
                    self._failed(reason)
                self._drop(reason)
            with suppress(RedisError, OSError):
                await connection.disconnect(nowait=True)

    def _answer(self, reply: Any) -> bool:
        if not self._waiting:
            return False
        self.breaker.answered()
        waiter = self._waiting.popleft()
        if not waiter.done():
            (waiter.set_exception if isinstance(reply, Exception) else waiter.set_result)(reply)
        return True

    def renew(self) -> None:
        """Leave this connection: the address may lead to another server by now."""
        self._drop("the connection is renewed")

    def _failed(self, reason: str) -> None:
        if self.breaker.failed(reason):
            self._drop(reason)

    def _drop(self, reason: str) -> None:
        connection, self._connection = self._connection, None
        waiting, self._waiting, self._unsent = self._waiting, deque(), []
        for waiter in waiting:
            if not waiter.done():
                waiter.set_exception(Unavailable(reason))
        if connection is not None and connection._writer is not None:
            connection._writer.transport.abort()  # its reader sees the end, and tidies up

    def _probe_when_due(self) -> None:
        if not self._is_closed and self._probing is None and self.breaker.probe_is_due():
            self._probing = self._started(self._probe())
            self._probing.add_done_callback(self._probed)

    def _probed(self, _: asyncio.Task[None]) -> None:
        self._probing = None

    async def _probe(self) -> None:
        from redis.exceptions import RedisError

        self._drop("the connection is tried anew")
        try:
            async with asyncio.timeout(self._limits.connect):
                await self._connected()
                await self._send((("PING",),))
        except Unavailable:
            return  # whoever raised it counted it
        except (RedisError, TimeoutError) as error:
            self._failed(f"a probe failed: {type(error).__name__}")
            self._drop("a probe failed")
        else:
            self.breaker.close()

    def _started(self, work: Any) -> asyncio.Task[Any]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(_looked_at)
        return task

    async def close(self) -> None:
        """End the connection and everything that was started for it."""
        self._is_closed = True
        self._drop("closed")
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _looked_at(done: asyncio.Future[Any]) -> None:
    """An error for which nobody waits any more is no news."""
    if not done.cancelled():
        done.exception()
