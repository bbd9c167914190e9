"""What the lock needs from a store: read, write only if nothing changed since, and wait for a change."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from airflow_provider_ragops.exceptions import ConflictError
from airflow_provider_ragops.locking.record import LockRecord


@dataclass(frozen=True)
class Stored:
    """A record as read. ``version`` changes with every write; ``body`` is the store's own object, kept whole."""

    record: LockRecord
    version: str
    body: Any


class LockStore(Protocol):
    @property
    def subject(self) -> str:
        """How errors and logs name the lock."""

    @property
    def request_timeout(self) -> float:
        """Seconds after which one read or write is given up."""

    def read(self) -> Stored | None:
        """What is stored; ``None`` where there is no object. One without a record was never held."""

    def write(self, record: LockRecord, seen: Stored | None) -> Stored:
        """Store ``record`` if nothing changed since ``seen`` (``None``: since there was no record).

        :raises ConflictError: when something did.
        """

    def wait_change(self, seen: Stored, seconds: float) -> bool:
        """Return True as soon as something changed since ``seen``; False when that is not known, maybe at once.

        Takes at most about ``seconds``. The caller reads again in either case: this only says when it pays.

        :raises ClusterError: when this store can't tell changes; others where it does not answer.
        """


def free(store: LockStore, holder: str, tries: int = 3) -> Stored | None:
    """Free the lock if ``holder`` has it, judged by a fresh read; a no-op otherwise. Returns what is stored then.

    :raises ConflictError: when someone else wrote it in between, every time.
    """
    while True:
        tries -= 1
        seen = store.read()
        if seen is None or seen.record.holder != holder:
            return seen
        try:
            return store.write(seen.record.released(), seen)
        except ConflictError:
            if not tries:
                raise
