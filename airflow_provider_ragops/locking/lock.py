"""The lock's loop: acquire, renew, check, release.

Guarantees: at most one holder believes itself valid, as long as clock *rates* differ by less than
``lease_seconds / renew_deadline``; offsets do not matter, because a waiter takes over only after it has itself seen
the record unchanged for a whole lease. Does not guarantee: that a paused holder stops writing. For that the
protected object carries the token (see ``release/``).
"""

from __future__ import annotations

import logging
import random
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone

from airflow_provider_ragops.exceptions import (
    ConfigurationError,
    ConflictError,
    LockHeldError,
    LockLostError,
    RagopsError,
    UnreachableError,
)
from airflow_provider_ragops.locking.record import NEVER_HELD, LockRecord
from airflow_provider_ragops.locking.store import LockStore, Stored

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class LockTimes:
    """Durations in seconds; their relations are checked here, once.

    :param lease: how long others must see the record unchanged before they may take over.
    :param renew_deadline: how long the holder trusts its last successful write; the gap to ``lease`` is the margin.
    :param retry: pause between tries, of a waiter and of the renewal.
    :param wait: how long to wait for the lock; longer than a lease, or a dead holder would never be succeeded.
    :param max_hold: the longest hold; a renewal thread that outlives a hung main thread would hold it for ever.
    """

    lease: int = 30
    renew_deadline: float = 20.0
    retry: float = 2.0
    wait: float = 1800.0
    max_hold: float = 3600.0

    def __post_init__(self) -> None:
        rules = (
            (isinstance(self.lease, int) and self.lease >= 1, "lease: whole seconds, at least 1", self.lease),
            (self.renew_deadline < self.lease, f"renew_deadline below lease={self.lease}", self.renew_deadline),
            (0 < self.retry * 1.2 < self.renew_deadline, f"retry·1.2 within (0, {self.renew_deadline})", self.retry),
            (self.wait > self.lease, f"wait longer than lease={self.lease}", self.wait),
            (self.max_hold >= self.lease, f"max_hold at least lease={self.lease}", self.max_hold),
        )
        for good, expected, seen in rules:
            if not good:
                raise ConfigurationError("lock times", expected=expected, seen=str(seen), action="Correct it.")


class Lock:
    """One hold of one lock by one process. Use :func:`held`, or ``acquire`` … ``release``.

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
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        now: Callable[[], datetime] = lambda: datetime.now(timezone.utc),
    ) -> None:
        if not holder:
            raise ConfigurationError(store.subject, expected="a holder's name", seen="none", action="Name the holder.")
        self.identity = f"{holder}/{uuid.uuid4()}"
        self._store, self._purpose, self.times = store, purpose, times or LockTimes()
        self._clock, self._sleep, self._now = clock, sleep, now
        self._mine: Stored | None = None
        self._valid_until = self._hold_until = float("-inf")
        self._observed: LockRecord | None = None
        self._observed_at = 0.0
        self._write = threading.Lock()

    @property
    def token(self) -> int:
        """The fencing token of this hold: the record's transitions."""
        if self._mine is None:
            raise self._lost("it is not held")
        return self._mine.record.transitions

    def acquire(self) -> int:
        """Wait for the lock and return the token.

        :raises LockHeldError: when it was not free within ``wait``; the message says who holds it.
        :raises LockRecordError: when the object holds something else.
        """
        deadline = self._clock() + self.times.wait
        last = ""
        while True:
            reason = self._try_acquire()
            if reason is None:
                return self.token
            if reason != last:
                log.info("%s: waiting: %s", self._store.subject, reason)
                last = reason
            if self._clock() >= deadline:
                raise LockHeldError(
                    self._store.subject, expected=f"to get it within {self.times.wait:g} s", seen=reason,
                    action="Look at that holder's task; a dead holder's lease ends by itself.",
                )
            # Jitter is for spreading waiters, not for secrets.
            self._sleep(self.times.retry * random.uniform(1.0, 1.2))  # noqa: S311

    def _try_acquire(self) -> str | None:
        """One try; returns why it did not succeed."""
        started = self._clock()
        try:
            seen = self._store.read()
            record = seen.record if seen else NEVER_HELD
            # Held by our own uuid: an earlier write of this process was applied and its reply lost.
            if seen and not record.free and record.holder != self.identity and not self._expired(seen):
                return f"held by {record.describe()}"
            stamp = self._now().isoformat()
            if record.holder == self.identity:
                wanted = record.renewed(stamp)
            else:
                wanted = record.taken_by(self.identity, self.times.lease, self._purpose, stamp)
            self._accept(self._store.write(wanted, seen), started)
        except ConflictError:
            return "someone else wrote it first"
        except UnreachableError as error:
            return str(error)
        self._hold_until = started + self.times.max_hold
        return None

    def _expired(self, seen: Stored) -> bool:
        """By my clock, since I last saw the record change, and by the record's own lease, not mine.

        The record, not the object's version: a stranger who touches the object does not renew the lock.
        """
        if seen.record != self._observed:
            self._observed, self._observed_at = seen.record, self._clock()
            return False
        return self._clock() - self._observed_at >= seen.record.lease_seconds

    def _accept(self, stored: Stored, started: float) -> None:
        # Validity counts from before the request: the reply may have been slow.
        self._mine, self._valid_until = stored, started + self.times.renew_deadline

    def renew(self) -> None:
        """Write the record again.

        :raises LockLostError: when somebody else holds it, or the hold has lasted too long.
        :raises UnreachableError: when the store does not answer; the hold is still valid until it runs out.
        """
        with self._write:
            mine, started = self._mine, self._clock()
            if mine is None or started >= self._hold_until:
                raise self._lost("it is not held" if mine is None else f"held for over {self.times.max_hold:g} s")
            wanted = mine.record.renewed(self._now().isoformat())
            try:
                self._accept(self._store.write(wanted, mine), started)
            except ConflictError:
                # Ours, with a lost reply before, or a foreign key changed; or truly taken over. Only a write of our
                # own counts: others judge the lease by the record's last change.
                self._accept(self._store.write(wanted, self._reread()), started)

    def _reread(self) -> Stored:
        seen = self._store.read()
        if seen is None or seen.record.holder != self.identity:
            self._mine = None
            raise self._lost("it was deleted" if seen is None else f"now held by {seen.record.describe()}")
        return seen

    def check(self, spare: float = 0.0) -> None:
        """Ask, before an effect, whether the hold is valid for ``spare`` more seconds; never talks to the store.

        :raises LockLostError: when it is not.
        """
        left = min(self._valid_until, self._hold_until) - self._clock()
        if self._mine is None or left <= spare:
            raise self._lost("it is not held" if self._mine is None else f"{left:.1f} s left of it")

    def release(self) -> None:
        """Free the lock; a no-op for anyone but the holder, judged by a fresh read."""
        with self._write:
            self._mine = None
            for _ in range(3):
                try:
                    seen = self._store.read()
                    if seen is None or seen.record.holder != self.identity:
                        return
                    self._store.write(seen.record.released(), seen)
                    return
                except ConflictError:
                    continue
                except RagopsError as error:
                    # Whatever the block ended with is what the reader must see.
                    log.warning("%s: not released, its lease will end by itself: %s", self._store.subject, error)
                    return

    def _lost(self, seen: str) -> LockLostError:
        return LockLostError(
            self._store.subject, expected=f"a valid hold by {self.identity}", seen=seen,
            action="No further effect was made; the next try resumes from what it finds.",
        )


@contextmanager
def held(lock: Lock) -> Iterator[Lock]:
    """Hold the lock for a block of code, renewing it from a thread; released on every way out."""
    lock.acquire()
    done = threading.Event()
    thread = threading.Thread(target=_keep_renewing, args=(lock, done), daemon=True, name="lock-renewal")
    thread.start()
    try:
        yield lock
    finally:
        done.set()
        thread.join(timeout=30)
        lock.release()


def _keep_renewing(lock: Lock, done: threading.Event) -> None:
    while not done.wait(lock.times.renew_deadline / 4):
        try:
            lock.renew()
        except LockLostError as error:
            log.error("lock renewal stopped: %s", error)  # noqa: TRY400 - the message is whole, a trace adds nothing
            return
        except RagopsError as error:
            # The hold ends by its own clock if this does not pass.
            log.warning("lock renewal: %s", error)
