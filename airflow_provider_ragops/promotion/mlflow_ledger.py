"""The ledger in MLflow: one run per release, in the experiment ``ragops-releases/<target slug>``.

A run is RUNNING while its release is open, FINISHED after ``released`` and FAILED after any other outcome.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import Any, get_args

from airflow_provider_ragops.contract import NO_VERSION, TAG_KIND, TAG_RELEASE_ID, UTC
from airflow_provider_ragops.exceptions import ConfigurationError, RegistryError
from airflow_provider_ragops.promotion.faults import named_faults
from airflow_provider_ragops.promotion.ledger import RELEASED, LedgerEntry, Outcome
from airflow_provider_ragops.promotion.runs import MlflowRuns, pages

EXPERIMENT_PREFIX = "ragops-releases/"
_TAG = "ragops.release."
_LONGEST_TAG = 5000  # characters; MLflow refuses longer values of tags


class MlflowLedger:
    """:class:`~airflow_provider_ragops.promotion.ledger.Ledger` on an ``MlflowClient``.

    ``where`` names the server in errors; ``clock`` returns the present time, aware.
    """

    def __init__(self, client: Any, where: str, clock: Callable[[], datetime]) -> None:
        self._client = client
        self._where = where
        self._clock = clock
        self._runs = MlflowRuns(client, where)

    def open(self, entry: LedgerEntry) -> None:
        if not self._find(entry.release_id):
            name = f"{entry.model} {entry.from_version or NO_VERSION} to {entry.to_version or NO_VERSION}"
            self._runs.start(EXPERIMENT_PREFIX + entry.target, name, _tags(entry), _milliseconds(entry.opened_at))

    def close(self, release_id: str, outcome: Outcome, reason: str, token: int | None = None) -> None:
        if outcome not in get_args(Outcome):
            raise ConfigurationError(
                f"release {release_id!r}", expected=f"an outcome of {get_args(Outcome)}", seen=repr(outcome),
                action="Correct the call.",
            )  # fmt: skip
        runs = self._find(release_id)
        if not runs:
            raise self._error(release_id, "an entry in the ledger", "none", "Open the entry first.")
        for run in runs:
            self._close_run(run, release_id, outcome, {
                "outcome": outcome, "outcome_reason": reason, "closed_token": "" if token is None else str(token),
            })

    def _close_run(self, run: Any, release_id: str, outcome: str, end: dict[str, str]) -> None:
        from mlflow.entities import RunTag

        before = run.data.tags.get(f"{_TAG}outcome")
        is_open = run.info.status == "RUNNING"
        if before in (None, outcome) and is_open:
            tags = [RunTag(name, value) for name, value in _named(end).items()]
            with named_faults(f"ledger entry {release_id!r}", self._where):
                self._client.log_batch(run.info.run_id, tags=tags)
        if is_open:  # also one that was closed otherwise and whose writer died before the run's end
            status = "FINISHED" if (before or outcome) == RELEASED else "FAILED"
            self._runs.end(run.info.run_id, status, _milliseconds(self._clock()))
        if before not in (None, outcome):
            action = "An outcome is history: open a new release instead."
            raise self._error(release_id, f"an open entry to close as {outcome!r}", f"outcome {before!r}", action)

    def open_entries(self, target: str) -> list[LedgerEntry]:
        return list(self._entries(target, status="RUNNING"))

    def history(self, target: str) -> list[LedgerEntry]:
        return list(self._entries(target))

    def served_on(self, target: str, when: datetime) -> LedgerEntry | None:
        ended = f"tags.`{_TAG}outcome` = '{RELEASED}' and attributes.end_time <= {_milliseconds(when)}"
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


def _named(fields: dict[str, str]) -> dict[str, str]:
    """Tags of our own; MLflow takes no empty ones."""
    return {f"{_TAG}{name}": value[:_LONGEST_TAG] for name, value in fields.items() if value}


def _tags(entry: LedgerEntry) -> dict[str, str]:
    fields = {
        "target": entry.target,
        "model": entry.model,
        "from": entry.from_version or NO_VERSION,
        "to": entry.to_version or NO_VERSION,
        "token": str(entry.token),
        "actor": entry.actor,
        "reason": entry.reason,
        "gate_report": entry.gate_report,
        "kind": entry.kind,
        "approval": entry.approval,
    }
    return {TAG_KIND: "release", TAG_RELEASE_ID: entry.release_id, **_named(fields)}


def _entry(run: Any) -> LedgerEntry:
    tags = {name.removeprefix(_TAG): value for name, value in run.data.tags.items()}
    closed_token = tags.get("closed_token")
    return LedgerEntry(
        release_id=tags[TAG_RELEASE_ID],
        target=tags["target"],
        model=tags["model"],
        from_version=_version(tags["from"]),
        to_version=_version(tags["to"]) or "",
        token=int(tags["token"]),
        actor=tags.get("actor", ""),
        reason=tags.get("reason", ""),
        gate_report=tags.get("gate_report", ""),
        opened_at=_time(run.info.start_time),
        outcome=tags.get("outcome"),
        closed_at=_time(run.info.end_time) if run.info.end_time else None,
        run_id=run.info.run_id,
        outcome_reason=tags.get("outcome_reason", ""),
        kind=tags.get("kind", "release"),
        approval=tags.get("approval", ""),
        closed_token=int(closed_token) if closed_token else None,
    )


def _version(text: str) -> str | None:
    return None if text == NO_VERSION else text


def _milliseconds(when: datetime) -> int:
    return round(when.timestamp() * 1000)


def _time(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)
