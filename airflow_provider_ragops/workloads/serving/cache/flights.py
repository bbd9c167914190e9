"""One builder per key within a process: who asks for what is being built waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Any

Work = Callable[[], Awaitable[Any]]


class BuilderGone(Exception):
    """The builder was cancelled, through no fault of those who wait."""


class TooMany(Exception):
    """As many keys are being built as may."""


class Flights:
    """A flight goes on when its callers leave: the answer is kept for the next. :meth:`close` ends all."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._flying: dict[Hashable, asyncio.Future[Any]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._flying)

    def __contains__(self, key: Hashable) -> bool:
        return key in self._flying

    async def share(self, key: Hashable, work: Work) -> tuple[Any, bool]:
        """The result, and whether somebody else had begun it.

        A builder's error is told to its own caller. Those who waited try once more, one of them for all: the second
        error is theirs, too.

        :raises TooMany: nothing was begun.
        """
        for _ in range(2):
            flight, is_mine = self._board(key, work)
            try:
                # Not the task itself: one caller that is cancelled must not cancel the others.
                return await asyncio.shield(flight), not is_mine
            except BuilderGone:
                continue
            except Exception:
                if is_mine:
                    raise
        flight, is_mine = self._board(key, work)
        return await asyncio.shield(flight), not is_mine

    def _board(self, key: Hashable, work: Work) -> tuple[asyncio.Future[Any], bool]:
        if key in self._flying:
            return self._flying[key], False
        if len(self._flying) >= self._most:
            raise TooMany
        loop = asyncio.get_running_loop()
        flight: asyncio.Future[Any] = loop.create_future()
        flight.add_done_callback(lambda done: done.exception())  # nobody may be left to hear of an error
        self._flying[key] = flight
        task = loop.create_task(self._fly(key, flight, work))
        self._tasks.add(task)
        task.add_done_callback(lambda done: self._landed(done, key, flight))
        return flight, True

    async def _fly(self, key: Hashable, flight: asyncio.Future[Any], work: Work) -> None:
        try:
            result = await work()
        except Exception as error:
            del self._flying[key]
            flight.set_exception(error)
        else:
            del self._flying[key]
            flight.set_result(result)

    def _landed(self, task: asyncio.Task[None], key: Hashable, flight: asyncio.Future[Any]) -> None:
        self._tasks.discard(task)
        if not flight.done():  # cancelled, perhaps before its first step
            del self._flying[key]
            flight.set_exception(BuilderGone())

    async def close(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
