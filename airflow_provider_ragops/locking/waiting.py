"""How a waiter passes the time between two tries: it watches where it can, and polls where it can't."""

from __future__ import annotations

import logging
import math
import random
from collections.abc import Callable
from dataclasses import dataclass

from airflow_provider_ragops.exceptions import ClusterError, UnreachableError
from airflow_provider_ragops.locking.store import LockStore, Stored

log = logging.getLogger(__name__)

# Seconds: something in between that holds events back must not cost a lease, nor a stop be noticed late.
_WATCH = 10.0


@dataclass(frozen=True)
class Refusal:
    """Why a try did not get the lock.

    :param who: what makes it another refusal than the last one: the holder, or the kind of error.
    :param seen: the record that stands in the way, to be watched; None where there is none to watch.
    :param left: seconds after which the next try may succeed although nothing was seen to change.
    :param not_before: seconds that the server asked to be left alone.
    """

    who: str
    reason: str
    seen: Stored | None = None
    left: float = math.inf
    not_before: float = 0.0


class Waiting:
    """:param retry: pause between two tries where no change can be watched."""

    def __init__(
        self, store: LockStore, retry: float, clock: Callable[[], float], sleep: Callable[[float], None],
    ) -> None:
        self._store, self._retry, self._clock, self._sleep = store, retry, clock, sleep
        self._can_watch = True
        self._watch_failed = False
        self._said = ""

    def tell(self, refusal: Refusal) -> None:
        """Log who is waited for, once."""
        if refusal.who != self._said:
            self._said = refusal.who
            log.info("%s: waiting: %s", self._store.subject, refusal.reason)

    def pause(self, refusal: Refusal, deadline: float) -> None:
        """Return when another try may pay; never at once, or a store that answers oddly would be asked in a loop."""
        began = self._clock()
        longest, shortest = min(refusal.left, deadline - began), self._retry / 20
        if refusal.seen and self._changed(refusal.seen, min(longest, _WATCH)):
            # All waiters saw it: the first to read takes it, the others should find it taken.
            return self._sleep(self._retry * random.uniform(0.05, 0.2))  # noqa: S311 - spreads, hides nothing
        pause = max(self._retry * random.uniform(1.0, 1.2), refusal.not_before)  # noqa: S311 - as above
        return self._sleep(max(min(pause, longest) - (self._clock() - began), shortest))

    def _changed(self, seen: Stored, seconds: float) -> bool:
        if not self._can_watch:
            return False
        try:
            return self._store.wait_change(seen, seconds)
        except UnreachableError as error:
            log.log(
                logging.DEBUG if self._watch_failed else logging.WARNING,
                "%s: the watch failed, read again until it works: %s", self._store.subject, error,
            )
            self._watch_failed = True
        except ClusterError as error:
            self._can_watch = False
            log.warning("%s: not watched, read every %g s instead: %s", self._store.subject, self._retry, error)
        return False
