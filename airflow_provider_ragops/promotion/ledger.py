"""The ledger: the history of releases. Derived from the release record; it may lag.

What it looks like in MLflow: ``mlflow_ledger``. How people read it: ``history``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Protocol

Outcome = Literal["released", "undone", "refused", "aborted"]
RELEASED: Outcome = "released"
UNDONE: Outcome = "undone"


@dataclass(frozen=True)
class LedgerEntry:
    """One release, or one rollback of a finished release (``kind``).

    ``target`` is the slug of the serving target; ``from_version`` is None on a first release, ``to_version`` is
    ``""`` where a rollback ends at no version; ``reason`` says why it was started, ``outcome_reason`` why it ended
    so. ``gate_report`` is the gate's evidence; where there is none, ``approval`` says who approved it. Open entries
    have no outcome and no ``closed_at``. ``token`` is the opening holder's, ``closed_token`` the closing holder's:
    another one took the release over. The ledger fills ``run_id``. Times are aware; MLflow keeps milliseconds.
    """

    release_id: str
    target: str
    model: str
    from_version: str | None
    to_version: str
    token: int
    actor: str
    reason: str
    gate_report: str
    opened_at: datetime
    outcome: str | None = None
    closed_at: datetime | None = None
    run_id: str = ""
    outcome_reason: str = ""
    kind: str = "release"
    approval: str = ""
    closed_token: int | None = None


class Ledger(Protocol):
    """History of the releases of all serving targets."""

    def open(self, entry: LedgerEntry) -> None:
        """Write down that a release began. A second call with the same release id changes nothing."""

    def close(self, release_id: str, outcome: Outcome, reason: str, token: int | None = None) -> None:
        """Write down how it ended; repeating the same outcome changes nothing.

        :param token: of the holder that closes it.
        :raises RegistryError: when there is no such entry, or it was closed with another outcome. What was closed
            stays as it is, and does not stay open.
        """

    def open_entries(self, target: str) -> list[LedgerEntry]:
        """Releases of the target without an end, newest first."""

    def history(self, target: str) -> list[LedgerEntry]:
        """All releases of the target, newest first."""

    def served_on(self, target: str, when: datetime) -> LedgerEntry | None:
        """The release whose version served at that time: the last one that ended ``released`` by then."""


def overtaken(entries: Iterable[LedgerEntry], version: str) -> bool:
    """Whether an alias that names the version may be the late write of a holder that was paused.

    It may where the newest entry that leads to the version was closed by another holder than the one that opened it,
    after its pods had changed: the first may wake up and still write. Otherwise the last write of a living holder lies
    behind us, and an alias that names the version now is a person's edit, which is reported and left alone; so it is
    where the entry does not say who closed it.
    """
    leading = [entry for entry in entries if entry.to_version == version]
    if not leading:
        return False
    newest = max(leading, key=lambda entry: entry.token)
    return newest.outcome in (RELEASED, UNDONE) and newest.closed_token not in (None, newest.token)
