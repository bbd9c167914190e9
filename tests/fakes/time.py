"""A clock that moves only when someone sleeps."""

from __future__ import annotations

from collections.abc import Callable


class FakeTime:
    """``clock()`` and ``sleep(seconds)``; ``on_sleep`` lets the rest of the world act meanwhile."""

    def __init__(self, rate: float = 1.0) -> None:
        self.seconds = 1000.0
        self.rate = rate
        self.on_sleep: Callable[[], None] = lambda: None

    def clock(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds * self.rate
        self.on_sleep()
