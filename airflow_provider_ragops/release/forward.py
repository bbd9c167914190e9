"""Forward: check, bless, roll, verify. What ends here is ``verified``, or taken back to the last good version."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

from airflow_provider_ragops.contract import TAG_GATE_REPORT
from airflow_provider_ragops.exceptions import RolloutFailedError, RolloutStalledError, UnreachableError
from airflow_provider_ragops.promotion.ledger import LedgerEntry
from airflow_provider_ragops.promotion.registry import VersionInfo
from airflow_provider_ragops.release.beside import strategy_after_blessing
from airflow_provider_ragops.release.checks import require_releasable, require_rollable
from airflow_provider_ragops.release.record import Phase, ReleaseRecord
from airflow_provider_ragops.release.request import ReleaseRequest
from airflow_provider_ragops.release.rollback import undo
from airflow_provider_ragops.release.session import Session
from airflow_provider_ragops.release.verify import Verification
from airflow_provider_ragops.rollout.plan import strategy_of
from airflow_provider_ragops.rollout.status import State

log = logging.getLogger(__name__)
Json = dict[str, Any]


@dataclass(frozen=True)
class Fault:
    """Why a rollout is taken back; ``blamed``: it is the version's own doing."""

    reason: str
    blamed: bool


def go_forward(session: Session, record: ReleaseRecord, request: ReleaseRequest, *, resuming: bool) -> ReleaseRecord:
    """Roll the target to the version; every pod serves it and answered when this returns.

    :param resuming: the record is already rolling to this version; it was checked before it began.
    :raises ReleaseRefusedError: a check said no, and nothing was touched.
    :raises RolloutFailedError: it did not come up or answered badly; the target was set back.
    :raises RolloutStalledError: it did not finish, through no fault of the version; the target was set back.
    """
    target, version = session.target, request.version
    found = session.updater.read()
    candidate = session.registry.version(target.model, version)
    if not resuming:
        serving_run = session.run_of(record.to_version) if record.to_version else None
        require_releasable(candidate, record, request, serving_run)
        require_rollable(found, target.container, target.slug)
    example = session.registry.input_example(target.model, version)
    verification = Verification(session.updater, target, session.guard)
    verification.measure_before(record.from_version if resuming else record.to_version, example)
    _clean_stale(session, candidate)
    strategy = strategy_of(found) if resuming else strategy_after_blessing(session, record, found, version, example)
    if not resuming:
        record = _begin(session, record, request, candidate)
    written = session.fence.write(record, version, strategy)
    fault = _rolled(session, written, version, example) or _verified(session, verification, record, example)
    if fault:
        raise _taken_back(session, record, fault)
    verified = record.with_phase(Phase.VERIFIED)
    # The version again, with the usual strategy: what differs from the chart's would stop a helm upgrade.
    session.fence.write(verified, version)
    return verified


def _begin(session: Session, record: ReleaseRecord, request: ReleaseRequest, candidate: VersionInfo) -> ReleaseRecord:
    """Open the ledger's entry; what the record will say when pods begin to change."""
    # Not the request's id alone: each rollout is an entry of its own, also the second one of a retried task.
    rollout = f"{request.release_id}-{session.fence.token}"
    session.ledger.open(LedgerEntry(
        release_id=rollout, target=session.target.slug, model=session.target.model,
        from_version=record.to_version or None, to_version=request.version, token=session.fence.token,
        actor=request.actor, reason=request.reason, gate_report=candidate.tags.get(TAG_GATE_REPORT, ""),
        opened_at=session.now(), kind="rollback" if request.rollback else "release", approval=request.approval,
    ))
    rolling = record.rolling(rollout, request.version, request.actor, request.reason if request.rollback else "")
    return rolling.held(request.reason) if request.rollback else rolling


def _rolled(session: Session, written: Json, version: str, example: Json) -> Fault | None:
    progress = session.updater.wait(written, version, example, session.timeout, lambda: session.guard(0.0))
    return None if progress.state is State.DONE else Fault(progress.reason, progress.blames_version)


def _verified(
    session: Session, verification: Verification, record: ReleaseRecord, example: Json,
) -> Fault | None:
    reason = verification.fault(record.to_version, example) or _key_space_fault(session, record)
    return Fault(reason, blamed=True) if reason else None


def _clean_stale(session: Session, candidate: VersionInfo) -> None:
    """A registered model that was made anew counts from 1 again: what the old version of this number left must go."""
    if session.keys is None:
        return
    session.check()
    try:
        session.keys.clean_stale({candidate.version: candidate.run_id})
    except UnreachableError as error:
        log.warning("keys under the number of version %s were not looked at: %s", candidate.version, error)


def _key_space_fault(session: Session, record: ReleaseRecord) -> str:
    if session.keys is None or not record.from_version:
        return ""
    runs = {version: session.run_of(version) for version in (record.from_version, record.to_version)}
    try:
        return session.keys.fault({version: run for version, run in runs.items() if run is not None})
    except UnreachableError as error:  # pods answer without a cache: this says nothing about the version
        log.warning("the keys of both versions were not compared: %s", error)
        return ""


def _taken_back(session: Session, record: ReleaseRecord, fault: Fault) -> RolloutFailedError | RolloutStalledError:
    back = undo(session, record, fault.reason, blamed=fault.blamed)
    kind = RolloutFailedError if fault.blamed else RolloutStalledError
    fate = "is quarantined" if fault.blamed else "may be tried again"
    return kind(
        f"release of version {record.to_version} to {session.target.slug}",
        expected="every pod to serve it and answer", seen=fault.reason,
        action=f"Version {back.to_version or 'none'} is serving again; {record.to_version} {fate}.",
    )
