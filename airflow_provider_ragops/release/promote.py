"""The alias, the books, and only then ``done``: what follows the pods. Safe to repeat, by whoever comes next.

MLflow has no compare-and-swap: alias writes are not fenced. So the hold is renewed and the fence asked just before,
and asked again just after: a holder that was paused in between finds out, and puts the alias back.
"""

from __future__ import annotations

import logging

from airflow_provider_ragops.contract import TAG_PARTITION, TAG_QUARANTINED, TAG_RELEASE_ID, TAG_REPLACED_BY
from airflow_provider_ragops.exceptions import FencedOutError, RegistryError
from airflow_provider_ragops.release.record import MOVING, Phase, ReleaseRecord
from airflow_provider_ragops.release.session import Session

log = logging.getLogger(__name__)


def promote(session: Session, record: ReleaseRecord) -> ReleaseRecord:
    """Move ``@champion`` to the verified version, settle the books, and say ``done``.

    :raises ReleaseRefusedError: when someone moved the alias meanwhile.
    :raises FencedOutError: when a newer release went on without this one.
    """
    target, version = session.target, record.to_version
    candidate = session.registry.version(target.model, version)
    alias = session.alias()
    if alias not in ("", record.from_version, version) and not session.observe().late:
        raise session.edited(f"the champion alias was moved to {alias} meanwhile")
    point_alias(session, version)
    _tag(session, record)
    session.close(record.release_id, "released", f"served by {target.slug} and verified")
    _read_back(session, version)
    done = record.done(candidate.tags.get(TAG_PARTITION, ""))
    session.fence.write(done)
    log.info("version %s is champion of %s", version, target.slug)
    return done


def point_alias(session: Session, version: str) -> None:
    """Make ``@champion`` name the version (``""``: nothing), as late and as freshly held as can be.

    :raises FencedOutError: when another holder took over before or during the write; a late write was put back.
    """
    session.renew(session.fence.token)
    session.fence.check()
    _write_alias(session, version)
    try:
        session.fence.check()
    except FencedOutError:
        _put_back(session, version)
        raise


def _write_alias(session: Session, version: str) -> None:
    model, champion = session.target.model, session.target.champion
    if version:
        session.registry.set_alias(model, champion, version)
    else:
        session.registry.delete_alias(model, champion)


def _put_back(session: Session, written: str) -> None:
    """We were paused and wrote late: the record is the truth, and where it is settled the alias follows it.

    Not under our hold. Should it race with the living holder's own write, that one reads back and writes again.
    """
    truth = session.fence.record(session.updater.read())
    if truth and truth.phase not in (*MOVING, Phase.VERIFIED) and session.alias() == written != truth.to_version:
        log.warning("the alias was written late, after a pause: back to version %s", truth.to_version or "none")
        _write_alias(session, truth.to_version)


def _tag(session: Session, record: ReleaseRecord) -> None:
    """Both versions say what became of them; the released one waits no longer under the challenger alias."""
    registry, model, version = session.registry, session.target.model, record.to_version
    registry.set_tags(model, version, {TAG_RELEASE_ID: record.release_id})
    if session.has(record.from_version):
        fault = {TAG_QUARANTINED: record.fault} if record.blamed else {}
        registry.set_tags(model, record.from_version, {TAG_REPLACED_BY: version, **fault})
    if registry.alias(model, session.target.challenger) == version:
        registry.delete_alias(model, session.target.challenger)


def _read_back(session: Session, version: str) -> None:
    if (found := session.alias()) != version:
        raise RegistryError(
            f"alias {session.target.champion!r} of model {session.target.model}",
            expected=f"version {version}, just written", seen=f"version {found or 'none'}",
            action="Someone else moved it meanwhile; find out who.",
        )
