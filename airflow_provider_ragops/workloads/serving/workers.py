"""Threads for what needs the CPU: a fixed number of them, each with one call at a time.

Unlike an executor's, a call that nobody waits for any more keeps its place until it ends: a model that hangs makes
the pod refuse further requests instead of collecting threads. They are daemons: none outlives the drain.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread
from typing import Any, TypeVar

from airflow_provider_ragops.exceptions import OverloadedError

Result = TypeVar("Result")


class _Call:
    __slots__ = ("arguments", "function", "future", "loop")

    def __init__(self, loop: Any, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        self.loop, self.function, self.arguments = loop, function, arguments
        self.future: asyncio.Future[Any] = loop.create_future()


class Workers:
    """:param threads: calls at the same time. :param waiting: calls that may wait for one of them."""

    def __init__(self, threads: int, waiting: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._limit = threads + waiting
        self._pending = 0  # written by the event loop only
        self._clock = clock
        self._calls: SimpleQueue[_Call | None] = SimpleQueue()
        self._began: list[float | None] = [None] * threads
        for number in range(threads):
            Thread(target=self._work, args=(number,), name=f"worker-{number}", daemon=True).start()

    async def run(self, function: Callable[..., Result], *arguments: Any) -> Result:
        """:raises OverloadedError: when as many calls wait as may; the call was not begun."""
        if self._pending >= self._limit:
            raise overloaded(self._limit)
        call = _Call(asyncio.get_running_loop(), function, arguments)
        self._pending += 1
        self._calls.put(call)
        try:
            result: Result = await call.future
        except asyncio.CancelledError:
            call.arguments = ()  # it may hold megabytes until a thread comes by
            raise
        return result

    def stuck(self, seconds: float) -> bool:
        """Whether every thread has been busy with one call for longer than that."""
        now = self._clock()
        return all(began is not None and now - began > seconds for began in self._began)

    def close(self) -> None:
        """Let idle threads end; busy ones end with the process."""
        for _ in self._began:
            self._calls.put(None)

    def _work(self, number: int) -> None:
        while (call := self._calls.get()) is not None:
            result: Any = None
            error: Exception | None = None
            if not call.future.cancelled():
                self._began[number] = self._clock()
                try:
                    result = call.function(*call.arguments)
                except BaseException as failure:  # a model that exits must not take its thread along
                    error = _bearable(failure)
                self._began[number] = None
            try:
                call.loop.call_soon_threadsafe(self._finish, call, result, error)
            except RuntimeError:
                return  # the loop is closed: the process ends
            del call, result, error  # not kept alive until the next call

    def _finish(self, call: _Call, result: Any, error: Exception | None) -> None:
        self._pending -= 1
        if call.future.done():
            return
        if error is None:
            call.future.set_result(result)
        else:
            call.future.set_exception(error)


def overloaded(limit: int) -> OverloadedError:
    return OverloadedError(
        "this pod", expected=f"at most {limit} predictions under way or waiting", seen="one more",
        action="Ask again in a second, or add replicas.",
    )


def _bearable(failure: BaseException) -> Exception:
    """What a future can carry: it takes neither an exit nor a StopIteration."""
    if isinstance(failure, Exception) and not isinstance(failure, StopIteration):
        return failure
    made = RuntimeError(f"the call ended with {type(failure).__name__}")
    made.__cause__ = failure
    return made
