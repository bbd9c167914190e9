"""The ledger: the history of releases, one MLflow run each. Derived from the release record; it may lag.

A run is RUNNING while its release is open, FINISHED after ``released`` and FAILED after any other outcome.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, Literal, Protocol, get_args

from airflow_provider_ragops.contract import NO_VERSION, TAG_KIND, TAG_RELEASE_ID
from airflow_provider_ragops.exceptions import ConfigurationError, RegistryError
from airflow_provider_ragops.promotion.faults import named_faults
from airflow_provider_ragops.promotion.runs import MlflowRuns, pages

Outcome = Literal["released", "undone", "refused", "aborted"]

EXPERIMENT_PREFIX = "ragops-releases/"
_TAG = "ragops.release."
_LONGEST_TAG = 5000  # characters; MLflow refuses longer values of tags


@dataclass(frozen=True)
class LedgerEntry:
    """One release.

    ``target`` is the slug of the serving target; ``from_version`` is None on a first release; ``reason`` says
    why it was started, ``outcome_reason`` why it ended so. Open entries have no outcome and no ``closed_at``.
    The ledger fills ``run_id``. Times are aware; MLflow keeps milliseconds.
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


class Ledger(Protocol):
    """History of the releases of all serving targets."""

    def open(self, entry: LedgerEntry) -> None:
        """Write down that a release began. A second call with the same release id changes nothing."""

    def close(self, release_id: str, outcome: Outcome, reason: str) -> None:
        """Write down how it ended; repeating the same outcome changes nothing.

        :raises RegistryError: when there is no such entry, or it was closed with another outcome.
        """

    def open_entries(self, target: str) -> list[LedgerEntry]:
        """Releases of the target without an end, newest first."""

    def history(self, target: str) -> list[LedgerEntry]:
        """All releases of the target, newest first."""

    def served_on(self, target: str, when: datetime) -> LedgerEntry | None:
        """The release whose version served at that time: the last one that ended ``released`` by then."""


class MlflowLedger:
    """:class:`Ledger` on an ``MlflowClient``; experiment ``ragops-releases/<target slug>``.

    ``where`` names the server in errors; ``clock`` returns the present time, aware.
    """

    def __init__(self, client: Any, where: str, clock: Callable[[], datetime]) -> None:
        self._client = client
        self._where = where
        self._clock = clock
        self._runs = MlflowRuns(client, where)

    def open(self, entry: LedgerEntry) -> None:
        if not self._find(entry.release_id):
            name = f"{entry.model} {entry.from_version or NO_VERSION} to {entry.to_version}"
            self._runs.start(EXPERIMENT_PREFIX + entry.target, name, _tags(entry), _milliseconds(entry.opened_at))

    def close(self, release_id: str, outcome: Outcome, reason: str) -> None:
        if outcome not in get_args(Outcome):
            raise ConfigurationError(
                f"release {release_id!r}", expected=f"an outcome of {get_args(Outcome)}", seen=repr(outcome),
                action="Correct the call.",
            )  # fmt: skip
        runs = self._find(release_id)
        if not runs:
            raise self._error(release_id, "an entry in the ledger", "none", "Open the entry first.")
        for run in runs:
            self._close_run(run, release_id, outcome, reason)

    def _close_run(self, run: Any, release_id: str, outcome: str, reason: str) -> None:
        before = run.data.tags.get(f"{_TAG}outcome")
        if before not in (None, outcome):
            action = "An outcome is history: open a new release instead."
            raise self._error(release_id, f"an open entry to close as {outcome!r}", f"outcome {before!r}", action)
        if run.info.status != "RUNNING":
            return
        with named_faults(f"ledger entry {release_id!r}", self._where):
            for key, value in (("outcome", outcome), ("outcome_reason", reason)):
                self._client.set_tag(run.info.run_id, _TAG + key, value[:_LONGEST_TAG])
        status = "FINISHED" if outcome == "released" else "FAILED"
        self._runs.end(run.info.run_id, status, _milliseconds(self._clock()))

    def open_entries(self, target: str) -> list[LedgerEntry]:
        return list(self._entries(target, status="RUNNING"))

    def history(self, target: str) -> list[LedgerEntry]:
        return list(self._entries(target))

    def served_on(self, target: str, when: datetime) -> LedgerEntry | None:
        ended = f"tags.`{_TAG}outcome` = 'released' and attributes.end_time <= {_milliseconds(when)}"
        entries = self._entries(
            target, status="FINISHED", extra=ended, order="attributes.end_time DESC"
        )
        return next(iter(entries), None)

    def _entries(self, target: str, **search: Any) -> Iterator[LedgerEntry]:
        experiment_id = self._runs.experiment_id(EXPERIMENT_PREFIX + target)
        if experiment_id is None:
            return iter(())
        return _unique(map(_entry, self._runs.search([experiment_id], {TAG_KIND: "release"}, **search)))

    def _find(self, release_id: str) -> list[Any]:
        """More than one run where the reply to a creation was lost and the client sent it again."""
        with named_faults("experiments of the ledger", self._where):
            experiments = pages(
                lambda token: self._client.search_experiments(
                    filter_string=f"name LIKE '{EXPERIMENT_PREFIX}%'", max_results=200, page_token=token
                )
            )
            ids = [str(each.experiment_id) for each in experiments]
        return list(self._runs.search(ids, {TAG_RELEASE_ID: release_id})) if ids else []

    def _error(self, release_id: str, expected: str, seen: str, action: str) -> RegistryError:
        return RegistryError(
            f"release {release_id!r} at {self._where}", expected=expected, seen=seen, action=action
        )


def _unique(entries: Iterable[LedgerEntry]) -> Iterator[LedgerEntry]:
    seen: set[str] = set()
    for entry in entries:
        if entry.release_id not in seen:
            seen.add(entry.release_id)
            yield entry


def _tags(entry: LedgerEntry) -> dict[str, str]:
    fields = {
        "target": entry.target,
        "model": entry.model,
        "from": entry.from_version or NO_VERSION,
        "to": entry.to_version,
        "token": str(entry.token),
        "actor": entry.actor,
        "reason": entry.reason,
        "gate_report": entry.gate_report,
    }
    tags = {f"{_TAG}{key}": value[:_LONGEST_TAG] for key, value in fields.items()}
    return {TAG_KIND: "release", TAG_RELEASE_ID: entry.release_id, **tags}


def _entry(run: Any) -> LedgerEntry:
    tags = run.data.tags
    return LedgerEntry(
        release_id=tags[TAG_RELEASE_ID],
        target=tags[f"{_TAG}target"],
        model=tags[f"{_TAG}model"],
        from_version=None if tags[f"{_TAG}from"] == NO_VERSION else tags[f"{_TAG}from"],
        to_version=tags[f"{_TAG}to"],
        token=int(tags[f"{_TAG}token"]),
        actor=tags.get(f"{_TAG}actor", ""),
        reason=tags.get(f"{_TAG}reason", ""),
        gate_report=tags.get(f"{_TAG}gate_report", ""),
        opened_at=_time(run.info.start_time),
        outcome=tags.get(f"{_TAG}outcome"),
        closed_at=_time(run.info.end_time) if run.info.end_time else None,
        run_id=run.info.run_id,
        outcome_reason=tags.get(f"{_TAG}outcome_reason", ""),
    )


def _milliseconds(when: datetime) -> int:
    return round(when.timestamp() * 1000)


def _time(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, timezone.utc)
