"""What the lock needs from a store: read, and write only if nothing changed since."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

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

    def read(self) -> Stored | None:
        """What is stored; ``None`` where there is no object. One without a record was never held."""

    def write(self, record: LockRecord, seen: Stored | None) -> Stored:
        """Store ``record`` if nothing changed since ``seen`` (``None``: since there was no record).

        :raises ConflictError: when something did.
        """
