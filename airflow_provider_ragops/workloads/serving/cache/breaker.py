"""When to stop asking a server that does not answer, and when to try again. Pure: the clock is an argument."""

from __future__ import annotations

import logging
from collections.abc import Callable

log = logging.getLogger(__name__)


class Breaker:
    """Opens after ``threshold`` failures in a row. While it is open only a probe is sent, ever less often.

    :param first: seconds to the first probe. It is soon: what looked like a dead server may have been a busy process.
    :param longest: seconds between two probes at most.
    """

    def __init__(
        self, name: str, clock: Callable[[], float], *, threshold: int = 3, first: float = 0.05, longest: float = 2.0
    ) -> None:
        self._name, self._clock = name, clock
        self._threshold, self._first, self._longest = threshold, first, longest
        self._failures = 0
        self._wait = first
        self._due = 0.0
        self.is_open = False
        self.reason = ""
        self.opened = 0

    def failed(self, reason: str) -> bool:
        """True where this failure opened it."""
        self._failures += 1
        self.reason = reason
        if self.is_open:
            self._wait = min(self._wait * 2, self._longest)
            self._due = self._clock() + self._wait
            return False
        if self._failures < self._threshold:
            return False
        self.is_open = True
        self.opened += 1
        self._wait = self._first
        self._due = self._clock() + self._wait
        log.warning("Redis at %s is not asked for now: %s", self._name, reason)
        return True

    def answered(self) -> None:
        """A reply came, of whatever kind."""
        self._failures = 0

    def probe_is_due(self) -> bool:
        return self.is_open and self._clock() >= self._due

    def close(self) -> None:
        """A probe was answered."""
        self._failures = 0
        self.is_open = False
        log.info("Redis at %s answers again", self._name)
