"""What does the world need before a release may start? A pure function of what was read after the seal.

Every try starts here, so a retry or a competitor resumes from the world and from nothing else. The table is in
``docs/adr/0003-reconcile-first.md`` and, row by row, in the tests.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from airflow_provider_ragops.promotion.ledger import Outcome
from airflow_provider_ragops.release.record import GOING_BACK, MOVING, Phase, ReleaseRecord


class Need(StrEnum):
    NOTHING = "nothing"  # the world is whole; a release may start
    RESUME = "resume"  # an interrupted rollout to the very version that is wanted: go on with it
    UNDO = "undo"  # pods are half-way, or on their way back: to the last good version first
    AWAIT = "await"  # pods of another version are still there
    PROMOTE = "promote"  # verified pods, but alias or ledger lag
    SET_ALIAS = "set alias"  # a paused holder moved the alias late: back to what is served
    CLOSE = "close"  # the ledger lags
    REFUSE = "refuse"  # a person changed something: report, touch nothing


@dataclass(frozen=True)
class World:
    """What was seen.

    :param template: MODEL_VERSION in the pod template, ``""`` for none.
    :param pods: versions of all live pods, Terminating ones included.
    :param alias: the version under the champion alias, ``""`` for none.
    :param late: whether that alias may be the late write of a paused holder (see ``promotion.ledger.overtaken``).
    :param lost: whether the version that is served was deleted from the registry, and its alias with it.
    :param open_entries: the ledger's release ids without an end.

    While pods are on the way (:data:`MOVING`) the last four are not asked: MLflow may be what is down.
    """

    record: ReleaseRecord | None
    template: str
    pods: frozenset[str] = frozenset()
    alias: str = ""
    late: bool = False
    lost: bool = False
    open_entries: tuple[str, ...] = ()


@dataclass(frozen=True)
class Decision:
    need: Need
    reason: str


@dataclass(frozen=True)
class Closing:
    """How an entry of the ledger is to be closed."""

    release_id: str
    outcome: Outcome
    reason: str


def decide(seen: World, wanted: str, *, manual: bool = False) -> Decision:
    """What is needed before anything else.

    :param wanted: the version to be released; ``""`` where nobody wants one (a rollback, a reconcile).
    :param manual: a person chose it, and may replace a champion that was deleted.
    """
    record = seen.record
    if record is None or not (record.release_id or record.to_version):
        return _first(seen)
    if seen.template != record.to_version:
        return Decision(Need.REFUSE, f"MODEL_VERSION is {seen.template or 'unset'}, the record says "
                                     f"{record.to_version or 'unset'}: someone edited the Deployment")
    if record.phase in MOVING:
        return _moving(record, wanted)
    others = sorted(version or "none" for version in seen.pods - {record.to_version})
    if others:
        return Decision(Need.AWAIT, f"pods of version {', '.join(others)} are still there")
    return _settled(record, seen, manual)


def _first(seen: World) -> Decision:
    if seen.template:
        return Decision(Need.REFUSE, f"MODEL_VERSION is {seen.template}, but nothing was ever released here")
    if seen.alias:
        return Decision(Need.REFUSE, f"the champion alias names {seen.alias}, but nothing was ever released here")
    return _ledger(seen, "nothing was ever released here")


def _moving(record: ReleaseRecord, wanted: str) -> Decision:
    if record.phase in GOING_BACK:
        return Decision(Need.UNDO, f"{record.phase} to {record.to_version or 'none'} was interrupted")
    if record.to_version == wanted:
        return Decision(Need.RESUME, f"release {record.release_id} to {wanted} was interrupted")
    return Decision(Need.UNDO, f"release {record.release_id} to {record.to_version} was interrupted")


def _settled(record: ReleaseRecord, seen: World, manual: bool) -> Decision:
    if record.phase is Phase.VERIFIED and (seen.late or seen.alias in ("", record.from_version, record.to_version)):
        return Decision(Need.PROMOTE, f"release {record.release_id} was verified, its alias was not confirmed")
    deleted = seen.lost and not seen.alias
    if deleted and not manual:
        return Decision(Need.REFUSE, f"the champion has no version: {record.to_version} was deleted, its pods "
                                     "serve on; release another one by hand")
    if seen.alias != record.to_version and not deleted:
        served = f"the champion alias names {seen.alias or 'nothing'}, the pods serve {record.to_version or 'nothing'}"
        if seen.late:
            return Decision(Need.SET_ALIAS, f"{served}: the late write of a holder that was paused")
        return Decision(Need.REFUSE, f"{served}: someone moved the alias, deleted its version, or undid the "
                                     "Deployment by hand")
    return _ledger(seen, f"serving {record.to_version or 'nothing'}")


def _ledger(seen: World, whole: str) -> Decision:
    if seen.open_entries:
        return Decision(Need.CLOSE, f"{whole}; open in the ledger: {', '.join(seen.open_entries)}")
    return Decision(Need.NOTHING, whole)


def closings(record: ReleaseRecord | None, open_entries: tuple[str, ...]) -> Iterator[Closing]:
    """How the open entries of a settled target ended: the record's own as its phase says, all others untouched."""
    for release_id in open_entries:
        if record and release_id == record.release_id and record.phase is Phase.DONE:
            yield Closing(release_id, "released", "the record says done; the ledger lagged")
        elif record and release_id == record.release_id and record.phase is Phase.UNDONE:
            yield Closing(release_id, "undone", record.fault or "the record says undone; the ledger lagged")
        else:
            yield Closing(release_id, "aborted", "it ended before it touched the target")
