"""The procedures of a serving target: release, roll out, promote, roll back, hold.

One process does one of them while it holds the lock. Each seals the target, reads the world, and makes one effect
after the other; whatever happens between two effects, the record says where to go on.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from airflow_provider_ragops.exceptions import ReleaseRefusedError, TargetError
from airflow_provider_ragops.release.forward import go_forward
from airflow_provider_ragops.release.promote import point_alias, promote
from airflow_provider_ragops.release.reconcile import Decision, Need, closings, decide
from airflow_provider_ragops.release.record import Phase, ReleaseRecord
from airflow_provider_ragops.release.references import clean_unreferenced
from airflow_provider_ragops.release.request import ReleaseOutcome, ReleaseRequest
from airflow_provider_ragops.release.rollback import roll_back as take_back
from airflow_provider_ragops.release.rollback import undo
from airflow_provider_ragops.release.session import Session
from airflow_provider_ragops.rollout.status import State

log = logging.getLogger(__name__)

# Acting on the world and reading again ends at the latest after pods, undo, alias, ledger and one look.
_ROUNDS = 6


def release(session: Session, request: ReleaseRequest, lock_token: int) -> ReleaseOutcome:
    """Roll the target to the version, verify it, and move ``@champion`` last.

    :raises ReleaseRefusedError: a check said no, and nothing was touched; or a person changed the target, and the
        edit was left as it is.
    :raises RolloutFailedError: the version did not come up or answered badly; the target was set back.
    :raises FencedOutError: a newer release went on without this one.
    """
    record, changed = _roll_out(session, request, lock_token)
    if changed:
        record = promote(session, record)
    clean_unreferenced(session, record)
    return _outcome(session, record, changed)


def roll_out(session: Session, request: ReleaseRequest, lock_token: int) -> ReleaseOutcome:
    """Only the pods: the record says ``verified``, the alias does not follow yet; raises as :func:`release`."""
    record, changed = _roll_out(session, request, lock_token)
    return _outcome(session, record, changed)


def promote_verified(session: Session, version: str, lock_token: int) -> ReleaseOutcome:
    """Only the alias, for a version that the pods were verified to serve.

    :raises ReleaseRefusedError: when the pods were not; nothing was touched.
    """
    record = session.seal(lock_token)
    if record.to_version != version or record.phase not in (Phase.VERIFIED, Phase.DONE):
        raise ReleaseRefusedError(
            f"promotion of version {version} at {session.target.slug}", expected="a verified rollout to it",
            seen=f"version {record.to_version or 'none'}, phase {record.phase.value}",
            action="Nothing was touched. Roll it out first.",
        )
    changed = record.phase is Phase.VERIFIED
    record, _ = make_whole(session, "")
    clean_unreferenced(session, record)
    return _outcome(session, record, changed)


def roll_back(session: Session, request: ReleaseRequest, lock_token: int) -> ReleaseOutcome:
    """Back to the recorded last good version, and hold; ``request.version`` is not looked at.

    Works while MLflow is down, but for alias, quarantine and ledger: those follow with the next try.
    """
    record = session.seal(lock_token)
    settled = record.phase in (Phase.DONE, Phase.UNDONE)
    if settled and record.to_version == record.last_good and record.hold == request.reason:
        log.info("%s was taken back to version %s already, for this reason", session.target.slug, record.to_version)
        return _outcome(session, record, False)
    rollback = f"{request.release_id}-{session.fence.token}"
    return _outcome(session, take_back(session, record, rollback, request.actor, request.reason), True)


def hold(session: Session, reason: str, lock_token: int) -> ReleaseOutcome:
    """Stop automatic releases, and say why; an empty reason lifts the hold. An interrupted release is not resumed."""
    record = session.seal(lock_token).held(reason)
    session.fence.write(record)
    log.info("%s: %s", session.target.slug, f"on hold: {reason}" if reason else "the hold is lifted")
    return _outcome(session, record, False)


def _roll_out(session: Session, request: ReleaseRequest, lock_token: int) -> tuple[ReleaseRecord, bool]:
    record = session.seal(lock_token)
    # An automatic release that was interrupted before the hold is not to go on after it.
    wanted = request.version if request.manual or not record.hold else ""
    record, resuming = make_whole(session, wanted, manual=request.manual)
    if record.to_version == request.version and not resuming:
        log.info("version %s is already the served champion of %s", request.version, session.target.slug)
        return record, False
    return go_forward(session, record, request, resuming=resuming), True


def make_whole(
    session: Session, wanted: str, tell: Callable[[Decision], None] = lambda _: None, *, manual: bool = False,
) -> tuple[ReleaseRecord, bool]:
    """Bring the world to where a release may start; True when the wanted one is to be resumed.

    :param tell: is told of each decision before it is acted on.
    :raises ReleaseRefusedError: when a person changed something.
    """
    for _ in range(_ROUNDS):
        seen = session.observe()
        decision = decide(seen, wanted, manual=manual)
        log.info("reconcile: %s: %s", decision.need, decision.reason)
        tell(decision)
        record = seen.record or ReleaseRecord(session.target.model)
        if decision.need in (Need.NOTHING, Need.RESUME):
            return record, decision.need is Need.RESUME
        _meet(session, record, decision, seen.open_entries)
    raise TargetError(
        f"Deployment {session.target.slug}", expected=f"a whole world after {_ROUNDS} rounds of reconcile",
        seen=decision.reason, action="Look at the release record and the alias.",
    )


def _meet(session: Session, record: ReleaseRecord, decision: Decision, open_entries: tuple[str, ...]) -> None:
    """One effect, after which the world is read again."""
    if decision.need is Need.REFUSE:
        raise session.edited(decision.reason)
    if decision.need is Need.UNDO:
        undo(session, record, "")
    elif decision.need is Need.AWAIT:
        _await_pods(session, record)
    elif decision.need is Need.PROMOTE:
        promote(session, record)
    elif decision.need is Need.SET_ALIAS:
        point_alias(session, record.to_version)
    else:
        for closing in closings(record, open_entries):
            session.close(closing.release_id, closing.outcome, closing.reason)


def _await_pods(session: Session, record: ReleaseRecord) -> None:
    found = session.updater.read()
    progress = session.updater.wait(found, record.to_version, None, session.timeout, session.check, patient=True)
    if progress.state is not State.DONE:
        raise TargetError(
            f"Deployment {session.target.slug}", expected=f"every pod on version {record.to_version or 'none'} "
            f"within {session.timeout:g} s", seen=progress.reason, action="Look at the pods' events.",
        )


def _outcome(session: Session, record: ReleaseRecord, changed: bool) -> ReleaseOutcome:
    return ReleaseOutcome(record.to_version, record.from_version, session.fence.token, record.release_id, changed)
