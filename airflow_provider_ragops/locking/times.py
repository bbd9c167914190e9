"""The lock's durations, and the clock that they are measured by."""

from __future__ import annotations

import time
from dataclasses import dataclass

from airflow_provider_ragops.exceptions import ConfigurationError

# Where there is one, a clock that goes on while the machine sleeps: a hold must not outlast the night in a laptop.
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def elapsed() -> float:
    """Seconds that nobody sets: the same clock in all processes of one machine, unrelated between machines."""
    return time.clock_gettime(_CLOCK)


@dataclass(frozen=True)
class LockTimes:
    """Durations in seconds; their relations are checked here, once.

    :param lease: how long others must see the record unchanged before they may take over.
    :param renew_deadline: how long the holder trusts its last successful write; the gap to ``lease`` is the margin,
        and ``lease / renew_deadline`` how much faster a waiter's clock may run than the holder's.
    :param retry: pause between tries, of a waiter that can't watch and of a renewal that failed.
    :param wait: how long to wait for the lock; longer than a lease, or a dead holder would never be succeeded.
    :param max_hold: the longest hold; a renewal thread that outlives a hung main thread would hold it for ever.
    """

    lease: int = 45
    renew_deadline: float = 20.0
    retry: float = 2.0
    wait: float = 1800.0
    max_hold: float = 3600.0

    def __post_init__(self) -> None:
        rules = (
            (type(self.lease) is int and self.lease >= 1, "lease: whole seconds, at least 1", self.lease),
            (self.renew_deadline < self.lease, f"renew_deadline below lease={self.lease}", self.renew_deadline),
            (0 < self.retry * 1.2 < self.renew_deadline, f"retry·1.2 within (0, {self.renew_deadline})", self.retry),
            (self.wait > self.lease, f"wait longer than lease={self.lease}", self.wait),
            (self.max_hold >= self.lease, f"max_hold at least lease={self.lease}", self.max_hold),
        )
        for good, expected, seen in rules:
            if not good:
                raise ConfigurationError("lock times", expected=expected, seen=str(seen), action="Correct it.")

    def require_brief(self, request_timeout: float, subject: str) -> None:
        """One request that hangs must leave time for the next one to succeed within the renewal deadline."""
        if not 0 < 2 * request_timeout <= self.renew_deadline:
            raise ConfigurationError(
                subject, expected=f"a request timeout of at most half of renew_deadline={self.renew_deadline:g} s",
                seen=f"{request_timeout:g} s", action="Shorten the request timeout or lengthen the lock's times.",
            )
