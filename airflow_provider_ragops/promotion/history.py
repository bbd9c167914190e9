"""The ledger as people read it: which version served when and why, and a table of all releases. Pure.

A version serves from the close of its release (or rollback) until the close of the next one that ended
``released``. An undone release changed nothing: the version before it served on, beside the pods that were tried.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, datetime

from airflow_provider_ragops.contract import NO_VERSION, UTC, Partition
from airflow_provider_ragops.promotion.ledger import RELEASED, LedgerEntry
from airflow_provider_ragops.promotion.table import Row, as_table


@dataclass(frozen=True)
class Served:
    """A time in which one version served: ``[since, until)``; ``until`` is None where it still does.

    ``entry`` says why: it is the release that brought the version, or the rollback that brought it back.
    """

    version: str
    since: datetime
    until: datetime | None
    entry: LedgerEntry


def served(entries: Iterable[LedgerEntry]) -> list[Served]:
    """All times in which some version served, oldest first. Before the first release nothing did."""
    released = (entry for entry in entries if entry.outcome == RELEASED)
    changes = sorted(
        ((entry.closed_at, entry.token, entry) for entry in released if entry.closed_at), key=lambda each: each[:2]
    )
    ends: list[datetime | None] = [since for since, _, _ in changes[1:]]
    return [
        Served(entry.to_version, since, until, entry)
        for (since, _, entry), until in zip(changes, [*ends, None], strict=False)
        if entry.to_version and since != until
    ]


def served_on(entries: Iterable[LedgerEntry], day: date) -> list[Served]:
    """Every version that served in that UTC day, oldest first; empty where none did."""
    whole = Partition.of_day(day)
    return [
        each for each in served(entries)
        if each.since < whole.end and (each.until is None or each.until > whole.start)
    ]  # fmt: skip


def rows(entries: Iterable[LedgerEntry]) -> list[Row]:
    """Releases as text by column, in the order given. Times are UTC."""
    return [
        {
            "opened (UTC)": shown(entry.opened_at),
            "closed (UTC)": shown(entry.closed_at),
            "kind": entry.kind,
            "from": entry.from_version or NO_VERSION,
            "to": entry.to_version or NO_VERSION,
            "outcome": entry.outcome or "open",
            "token": _tokens(entry),
            "by": entry.actor,
            "why": entry.reason,
            "how it ended": entry.outcome_reason,
            "evidence": evidence(entry),
        }
        for entry in entries
    ]


def served_rows(times: Iterable[Served]) -> list[Row]:
    """What served as text by column. Times are UTC."""
    return [
        {
            "version": each.version,
            "since (UTC)": shown(each.since),
            "until (UTC)": shown(each.until) or "now",
            "kind": each.entry.kind,
            "by": each.entry.actor,
            "why": each.entry.reason,
            "evidence": evidence(each.entry),
        }
        for each in times
    ]


def table(entries: Iterable[LedgerEntry]) -> str:
    """Releases as a table for a log or a terminal."""
    return as_table(rows(entries))


def evidence(entry: LedgerEntry) -> str:
    """What allowed it: who approved it, where a person had to, and the gate's report, which then says "reject"."""
    approved = f"approved: {entry.approval}" if entry.approval else ""
    return "; ".join(filter(None, (approved, entry.gate_report))) or "none"


def shown(when: datetime | None) -> str:
    return f"{when.astimezone(UTC):%Y-%m-%d %H:%M:%S}" if when else ""


def _tokens(entry: LedgerEntry) -> str:
    taken_over = entry.closed_token not in (None, entry.token)
    return f"{entry.token}, closed by {entry.closed_token}" if taken_over else str(entry.token)
