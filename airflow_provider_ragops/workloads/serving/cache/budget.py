"""How long Redis may hold up one request, over all of its calls. Building is not counted: it is the answer itself."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from airflow_provider_ragops.workloads.serving.cache.client import Clock
from airflow_provider_ragops.workloads.serving.cache.link import Unavailable

_LEAST = 0.001  # a call with less time left would only be given up


class Budget:
    """May be shared by all looks of one request."""

    def __init__(self, seconds: float, clock: Clock) -> None:
        self._left, self._clock = seconds, clock
        self._open, self._since = 0, 0.0

    @contextmanager
    def call(self) -> Iterator[float]:
        """The seconds that this call may take. Time goes while any call is open, once for those side by side.

        :raises Unavailable: nothing is left.
        """
        self._spend()
        if self._left < _LEAST:
            raise Unavailable("the request's time for Redis is spent")
        self._open += 1
        try:
            yield self._left
        finally:
            self._spend()
            self._open -= 1

    def _spend(self) -> None:
        now = self._clock()
        self._left -= now - self._since if self._open else 0.0
        self._since = now
