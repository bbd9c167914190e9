"""What a waiter knows: since when it has seen the record as it is now. Pure."""

from __future__ import annotations

from airflow_provider_ragops.locking.record import LockRecord


class Observation:
    """The only ground for taking over: a whole lease without a change, counted by the waiter's own clock.

    Nothing that others wrote about time counts, so a clock that is set wrong, here or there, does no harm. It lives
    in one process: a waiter that starts anew counts anew.
    """

    def __init__(self) -> None:
        self._record: LockRecord | None = None
        self._since = 0.0

    def left(self, record: LockRecord, now: float) -> float:
        """Seconds until the holder of ``record``, read by now, counts as dead: not above 0 when it does.

        By the record's own lease, not mine. And by the record, not the object's version: a stranger who touches the
        object does not renew the lock.
        """
        if record != self._record:
            self._record, self._since = record, now
        return self._since + record.lease_seconds - now
