from __future__ import annotations

import asyncio
import sys
from threading import Event
from typing import Any

import pytest

from airflow_provider_ragops.exceptions import OverloadedError
from airflow_provider_ragops.workloads.serving.workers import Workers

from .conftest import wait_until


@pytest.mark.parametrize("failure", [ValueError("no"), StopIteration(), SystemExit(3), KeyboardInterrupt()])
def test_a_call_that_fails_takes_no_thread_along(failure: BaseException) -> None:
    """The one who waits gets the error, even of a model that exits; the next call is answered by the same thread."""
    workers = Workers(1, 4)

    def fail() -> None:
        raise failure

    async def run() -> int:
        with pytest.raises((ValueError, RuntimeError)):
            await workers.run(fail)
        return await workers.run(lambda: 7)

    assert asyncio.run(run()) == 7


def test_calls_beyond_the_queue_are_refused_at_once() -> None:
    """One at work and one waiting: the third is refused and never begun; places come back."""
    workers, gate, begun = Workers(1, 1), Event(), []

    def work(number: int) -> int:
        begun.append(number)
        gate.wait(30)
        return number

    async def run() -> list[Any]:
        first, second = (asyncio.ensure_future(workers.run(work, number)) for number in (1, 2))
        await asyncio.sleep(0.05)
        with pytest.raises(OverloadedError, match="at most 2"):
            await workers.run(work, 3)
        gate.set()
        return [await first, await second, await workers.run(work, 4)]

    assert asyncio.run(run()) == [1, 2, 4]
    assert begun == [1, 2, 4]


def test_a_call_that_nobody_waits_for_keeps_its_place_until_it_ends() -> None:
    """C9: a model that hangs makes the pod refuse, not collect threads; a given-up call that waits is not begun."""
    workers, gate, begun = Workers(1, 1), Event(), []

    def work(number: int) -> None:
        begun.append(number)
        gate.wait(30)

    async def run() -> None:
        calls = [asyncio.ensure_future(workers.run(work, number)) for number in (1, 2)]
        await asyncio.sleep(0.05)
        for call in calls:
            call.cancel()
        with pytest.raises(OverloadedError):
            await workers.run(work, 3)
        gate.set()
        while workers._pending:
            await asyncio.sleep(0.01)
        await workers.run(work, 4)

    asyncio.run(run())
    assert begun == [1, 4]


def test_stuck_means_that_no_thread_is_left() -> None:
    """One thread that hangs is not the end of the pod; all of them are."""
    now, gate = [0.0], Event()
    workers = Workers(2, 4, clock=lambda: now[0])

    async def run() -> None:
        calls = [asyncio.ensure_future(workers.run(gate.wait, 30))]
        await asyncio.sleep(0.05)
        now[0] = 100.0
        assert not workers.stuck(60)
        calls.append(asyncio.ensure_future(workers.run(gate.wait, 30)))
        await asyncio.sleep(0.05)
        assert not workers.stuck(60)
        now[0] = 161.0
        assert workers.stuck(60)
        gate.set()
        await asyncio.gather(*calls)

    asyncio.run(run())
    assert not workers.stuck(60)


def test_an_answer_does_not_live_on_in_its_thread() -> None:
    """What a call took and gave (megabytes) is free as soon as it is answered."""
    workers, held = Workers(1, 1), []

    class Large:
        def __del__(self) -> None:
            held.append("gone")

    async def run() -> None:
        given = Large()
        assert sys.getrefcount(given) > 0
        await workers.run(lambda value: None, given)
        del given

    asyncio.run(run())
    wait_until(lambda: held == ["gone"], 5)
