"""Back to the last good version, as one unit: MODEL_VERSION and the record in one write, then the pods.

The pods come back without MLflow: a rollback must work while the registry is down. Only then the books are settled
(alias, quarantine, ledger), and the record's last phase comes last, so that whoever comes next settles what is open.
"""

from __future__ import annotations

import logging

from airflow_provider_ragops.contract import TAG_QUARANTINED
from airflow_provider_ragops.exceptions import ReleaseRefusedError, TargetError
from airflow_provider_ragops.promotion.ledger import LedgerEntry
from airflow_provider_ragops.release.promote import point_alias
from airflow_provider_ragops.release.record import GOING_BACK, Phase, ReleaseRecord
from airflow_provider_ragops.release.session import Session
from airflow_provider_ragops.rollout.feasibility import undo_strategy
from airflow_provider_ragops.rollout.plan import DRAIN
from airflow_provider_ragops.rollout.reading import version_of
from airflow_provider_ragops.rollout.status import State

log = logging.getLogger(__name__)


def undo(session: Session, record: ReleaseRecord, fault: str, *, blamed: bool = False) -> ReleaseRecord:
    """Take an unfinished release back, or finish an interrupted undo or rollback.

    :param fault: why; empty where it only clears the way. One that is resumed keeps the fault that it was started for.
    :param blamed: it is the version's own doing.
    :raises TargetError: when the old version does not come back in time; the next try resumes.
    """
    return _go_back(session, record if record.phase in GOING_BACK else record.undoing(fault, blamed=blamed))


def roll_back(session: Session, record: ReleaseRecord, release_id: str, actor: str, reason: str) -> ReleaseRecord:
    """Take back what is served now, finished or not, to the recorded last good version, and hold the target.

    Works while MLflow is down, but for the books.

    :raises ReleaseRefusedError: when there is no other good version, or a person edited the Deployment.
    """
    template = version_of(session.updater.read()["spec"]["template"], session.target.container)
    if template != record.to_version:
        raise session.edited(f"MODEL_VERSION is {template or 'unset'}, the record says {record.to_version or 'unset'}")
    if record.phase in GOING_BACK:
        return _go_back(session, record.held(reason))
    if record.phase in (Phase.ROLLING, Phase.VERIFIED):
        return _go_back(session, record.undoing(reason, blamed=True).held(reason))
    if record.last_good in ("", record.to_version):
        raise ReleaseRefusedError(
            f"rollback of {session.target.slug}", expected="a last good version other than the one that is served",
            seen=f"serving {record.to_version or 'none'}, last good {record.last_good or 'none'}",
            action="Nothing was touched. Name the version to go back to.",
        )
    return _go_back(session, record.rolling_back(release_id, actor, reason).held(reason))


def _go_back(session: Session, back: ReleaseRecord) -> ReleaseRecord:
    version = back.to_version
    log.warning("back to version %s, because: %s", version or "none", back.fault or "it was interrupted")
    strategy = undo_strategy(session.updater.feasibility(session.updater.read())) if version else DRAIN
    written = session.fence.write(back, version, strategy)
    # Asked for the version only: the example to send lies in MLflow.
    progress = session.updater.wait(written, version, None, session.timeout, session.check, patient=True)
    if progress.state is not State.DONE:
        raise TargetError(
            f"undo of version {back.from_version} to version {version or 'none'} at {session.target.slug}",
            expected=f"its pods to be back within {session.timeout:g} s", seen=progress.reason,
            action=f"The record says {back.phase.value!r}: the next release or reconcile resumes it; look at the "
                   "pods' events.",
        )
    _settle(session, back)
    end = back.with_phase(Phase.DONE if back.phase is Phase.ROLLING_BACK else Phase.UNDONE)
    # The version again, now with the usual strategy: what differs from the chart's would stop a helm upgrade.
    session.fence.write(end, version)
    return end


def _settle(session: Session, back: ReleaseRecord) -> None:
    """The alias follows where it had moved, the version that was taken back is quarantined, the entry is closed."""
    # No alias at all: the version under it was deleted, which may be why a person goes back.
    left = (back.from_version, "") if back.phase is Phase.ROLLING_BACK else (back.from_version,)
    if session.alias() in left and back.from_version:
        point_alias(session, back.to_version)
    if back.blamed and session.has(back.from_version):
        session.registry.set_tags(session.target.model, back.from_version, {TAG_QUARANTINED: back.fault})
    if back.phase is Phase.ROLLING_BACK:
        session.ledger.open(_entry(session, back))
        session.close(back.release_id, "released", "served again by every pod")
    else:
        reason = back.fault or "its release was interrupted, and taken back before it was resumed"
        session.close(back.release_id, "undone", reason)


def _entry(session: Session, back: ReleaseRecord) -> LedgerEntry:
    """Written after the pods are back: MLflow may have been what was down."""
    return LedgerEntry(
        release_id=back.release_id, target=session.target.slug, model=session.target.model,
        from_version=back.from_version, to_version=back.to_version, token=session.fence.token, actor=back.actor,
        reason=back.fault, gate_report="", opened_at=session.now(), kind="rollback",
    )
