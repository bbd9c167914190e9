"""What a holder knows of its hold: a value, replaced whole, so that two threads never see half of it. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace

from airflow_provider_ragops.locking.store import Stored
from airflow_provider_ragops.locking.times import LockTimes


@dataclass(frozen=True)
class Hold:
    """:param acquired: when the request that took the lock was about to be sent, by the holder's clock.
    :param renewed: the same of its last successful write. Not when the reply came: that may have been slow.
    """

    stored: Stored
    acquired: float
    renewed: float
    times: LockTimes

    @property
    def until(self) -> float:
        return min(self.renewed + self.times.renew_deadline, self.acquired + self.times.max_hold)

    def rewritten(self, stored: Stored, started: float) -> Hold:
        return replace(self, stored=stored, renewed=started)

    def fault(self, now: float, spare: float = 0.0) -> str:
        """Why the hold is not valid for ``spare`` more seconds; empty when it is."""
        if self.until - now > spare:
            return ""
        return self.overlong(now, spare) or (
            f"last renewed {now - self.renewed:.1f} s ago, trusted for {self.times.renew_deadline:g} s"
        )

    def overlong(self, now: float, spare: float = 0.0) -> str:
        """Why it can't be renewed any more; empty when it can."""
        if self.acquired + self.times.max_hold - now > spare:
            return ""
        return f"held for {now - self.acquired:.1f} s of at most {self.times.max_hold:g} s"
