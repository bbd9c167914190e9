"""Time that passes only when someone sleeps, and clocks that show it differently."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


class FakeTime:
    """``clock()`` and ``sleep(seconds)``; ``on_sleep`` lets the rest of the world act meanwhile."""

    def __init__(self) -> None:
        self.seconds = 1000.0
        self.on_sleep: Callable[[], None] = lambda: None

    def clock(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds
        self.on_sleep()


@dataclass(frozen=True)
class Clock:
    """One machine's view of ``time``: it started elsewhere and runs faster or slower."""

    time: FakeTime
    rate: float = 1.0
    offset: float = 0.0

    def clock(self) -> float:
        return self.offset + self.rate * self.time.seconds

    def sleep(self, seconds: float) -> None:
        self.time.sleep(seconds / self.rate)
