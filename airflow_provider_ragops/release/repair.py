"""Look at a target that nobody is releasing to: is it whole? And make it so, or say what a person must do.

What a dead or paused release left behind is repaired; a person's edit is reported and left as it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from airflow_provider_ragops.release.procedure import make_whole
from airflow_provider_ragops.release.reconcile import Decision, Need, decide
from airflow_provider_ragops.release.references import clean_unreferenced, referrers
from airflow_provider_ragops.release.session import Session

LEFTOVER_KEYS = "leftover keys"


@dataclass(frozen=True)
class Finding:
    """``what``: a :class:`Need`, or what else was found; ``needs_person``: nothing here can put it right."""

    what: str
    reason: str
    needs_person: bool = False


def survey(session: Session) -> list[Finding]:
    """What is not whole; reads only, without the lock."""
    return [*_of(decide(session.observe(), "")), *_leftover_keys(session)]


def repair(session: Session, lock_token: int) -> list[Finding]:
    """Make the target whole, under the lock; returns what was repaired.

    :raises ReleaseRefusedError: when a person must decide; nothing of theirs was touched.
    """
    session.seal(lock_token)
    found: list[Finding] = []
    record, _ = make_whole(session, "", lambda decision: found.extend(_of(decision)))
    found += _leftover_keys(session)
    clean_unreferenced(session, record)
    return found


def _of(decision: Decision) -> Iterator[Finding]:
    if decision.need is not Need.NOTHING:
        yield Finding(decision.need.value, decision.reason, needs_person=decision.need is Need.REFUSE)


def _leftover_keys(session: Session) -> Iterator[Finding]:
    if session.keys is not None:
        for version, count in session.keys.leftovers(referrers(session)).items():
            yield Finding(LEFTOVER_KEYS, f"{count} keys of version {version}, which nothing refers to")
