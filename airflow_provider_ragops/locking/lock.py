"""The lock: acquire, renew, check, release.

Guarantees: at most one holder believes itself valid, as long as clock *rates* differ by less than
``lease / renew_deadline``; offsets do not matter, because a waiter takes over only after it has itself seen the
record unchanged for a whole lease. Does not guarantee: that a paused holder stops writing. For that the protected
object carries the token (see ``release/``). docs/adr/0004-why-a-configmap.md tells why.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable
from datetime import datetime, timezone

from airflow_provider_ragops.exceptions import (
    ConfigurationError,
    ConflictError,
    LockHeldError,
    LockLostError,
    RagopsError,
    UnreachableError,
)
from airflow_provider_ragops.locking.hold import Hold
from airflow_provider_ragops.locking.observation import Observation
from airflow_provider_ragops.locking.record import NEVER_HELD, LockRecord
from airflow_provider_ragops.locking.store import LockStore, Stored, free
from airflow_provider_ragops.locking.times import LockTimes, elapsed
from airflow_provider_ragops.locking.waiting import Refusal, Waiting

log = logging.getLogger(__name__)

# Writing the object again after a stranger's touch; one that touches it more often than this is no accident.
_REWRITES = 3


class Lock:
    """One hold of one lock by one process. Use ``holding.held``, or ``acquire`` … ``release``.

    :param holder: who asks, for people (dag, run, task, map index, try); a uuid is added, so that two tries of
        the same task, or two threads, are never taken for one holder.
    :param clock: monotonic seconds. ``sleep`` waits; ``now`` gives the time that people read in the record.
    """

    def __init__(
        self,
        store: LockStore,
        holder: str,
        purpose: str,
        times: LockTimes | None = None,
        *,
        clock: Callable[[], float] = elapsed,
        sleep: Callable[[float], None] = time.sleep,
        now: Callable[[], datetime] = lambda: datetime.now(timezone.utc),
    ) -> None:
        if not holder:
            raise ConfigurationError(store.subject, expected="a holder's name", seen="none", action="Name the holder.")
        self.identity = f"{holder}/{uuid.uuid4()}"
        self.times = times or LockTimes()
        self.times.require_brief(store.request_timeout, store.subject)
        self._store, self._purpose, self._clock, self._now = store, purpose, clock, now
        self._hold: Hold | None = None
        self._wrote = False
        self._observation = Observation()
        self._waiting = Waiting(store, self.times.retry, clock, sleep)
        self._write = threading.Lock()

    @property
    def token(self) -> int:
        """The fencing token of this hold: the record's transitions."""
        return self._held().stored.record.transitions

    @property
    def valid_until(self) -> float:
        """When the hold ends if it is not renewed, by this lock's clock."""
        return self._held().until

    def acquire(self) -> int:
        """Wait for the lock and return the token.

        :raises LockHeldError: when it was not free within ``wait``; the message says who holds it.
        :raises LockRecordError: when the object holds something else.
        """
        deadline = self._clock() + self.times.wait
        while True:
            refusal = self._try_acquire()
            if refusal is None:
                return self.token
            self._waiting.tell(refusal)
            if self._clock() >= deadline:
                raise LockHeldError(
                    self._store.subject, expected=f"to get it within {self.times.wait:g} s", seen=refusal.reason,
                    action="Look at that holder's task; a dead holder's lease ends by itself.",
                )
            self._waiting.pause(refusal, deadline)

    def _try_acquire(self) -> Refusal | None:
        started = self._clock()
        try:
            seen = self._store.read()
            record = seen.record if seen else NEVER_HELD
            # Held by our own uuid: an earlier write of this process was applied and its reply lost.
            if seen and not record.free and record.holder != self.identity:
                left = self._observation.left(record, self._clock())
                if left > 0:
                    return Refusal(record.holder, f"held by {record.describe()}", seen, left)
            self._take(seen, record, started)
        except ConflictError:
            return Refusal("conflict", "someone else wrote it first")
        except UnreachableError as error:
            return Refusal("unreachable", str(error), not_before=error.retry_after)
        return None

    def _take(self, seen: Stored | None, record: LockRecord, started: float) -> None:
        stamp = self._now().isoformat()
        if record.holder == self.identity:
            wanted = record.renewed(stamp)
        else:
            wanted = record.taken_by(self.identity, self.times.lease, self._purpose, stamp)
        self._wrote = True
        self._hold = Hold(self._store.write(wanted, seen), started, started, self.times)

    def renew(self, token: int = 0) -> None:
        """Write the record again.

        :param token: a larger one that was written into the protected object: the lock's rises to it, so that the
            next is larger still, whatever becomes of that object.
        :raises LockLostError: when somebody else holds it, or the hold has lasted too long.
        :raises UnreachableError: when the store does not answer; the hold is still valid until it runs out.
        """
        with self._write:
            hold, started = self._held(), self._clock()
            if fault := hold.overlong(started):
                raise self._lost(fault)
            mine, stamp = hold.stored, self._now().isoformat()
            for left in reversed(range(_REWRITES)):
                try:
                    self._hold = hold.rewritten(self._store.write(mine.record.renewed(stamp, token), mine), started)
                    return
                except ConflictError:
                    if not left:
                        raise
                    # Ours, with a lost reply before, or a foreign key changed; or truly taken over. Only a write of
                    # our own counts: others judge the lease by the record's last change.
                    mine = self._reread()

    def _reread(self) -> Stored:
        seen = self._store.read()
        if seen is None or seen.record.holder != self.identity:
            self._hold = None
            raise self._lost("it was deleted" if seen is None else f"now held by {seen.record.describe()}")
        return seen

    def check(self, spare: float = 0.0) -> None:
        """Ask, before an effect, whether the hold is valid for ``spare`` more seconds; never talks to the store.

        :raises LockLostError: when it is not.
        """
        if fault := self._held().fault(self._clock(), spare):
            raise self._lost(fault)

    def release(self) -> None:
        """Free the lock; a no-op for anyone but the holder, judged by a fresh read. Raises no error of the store."""
        with self._write:
            self._hold = None
            if not self._wrote:
                return
            try:
                free(self._store, self.identity)
            except RagopsError as error:
                # Whatever the block ended with is what the reader must see.
                log.warning("%s: not released, its lease will end by itself: %s", self._store.subject, error)

    def _held(self) -> Hold:
        hold = self._hold
        if hold is None:
            raise self._lost("it is not held")
        return hold

    def _lost(self, seen: str) -> LockLostError:
        return LockLostError(
            self._store.subject, expected=f"a valid hold by {self.identity}", seen=seen,
            action="No further effect was made; the next try resumes from what it finds.",
        )
