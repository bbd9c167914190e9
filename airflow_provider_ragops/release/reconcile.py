"""What does the world need before a release may start? A pure function of what was read after the seal.

Every try starts here, so a retry or a competitor resumes from the world and from nothing else. The table is in
``docs/adr/0003-reconcile-first.md`` and, row by row, in the tests.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from airflow_provider_ragops.release.record import Phase, ReleaseRecord


class Need(StrEnum):
    NOTHING = "nothing"  # the world is whole; a release may start
    RESUME = "resume"  # an interrupted rollout to the very version that is wanted: go on with it
    UNDO = "undo"  # an interrupted rollout to another version: back to the last good one first
    SET_ALIAS = "set alias"  # verified pods, but alias or ledger lag
    REFUSE = "refuse"  # a person changed something: report, touch nothing


@dataclass(frozen=True)
class Decision:
    need: Need
    reason: str


def decide(record: ReleaseRecord | None, template: str, alias: str, wanted: str) -> Decision:
    """Decide from the record, the template's version, the champion alias and the version that is wanted.

    :param template: MODEL_VERSION in the pod template, ``""`` for none.
    :param alias: the version under the champion alias, ``""`` for none.
    """
    if record is None or not (record.release_id or record.to_version):
        return _first(template, alias)
    if template != record.to_version:
        return Decision(Need.REFUSE, f"MODEL_VERSION is {template or 'unset'}, the record says "
                                     f"{record.to_version or 'unset'}: someone edited the Deployment")
    if record.phase is Phase.ROLLING:
        if record.to_version == wanted:
            return Decision(Need.RESUME, f"release {record.release_id} to {wanted} was interrupted")
        return Decision(Need.UNDO, f"release {record.release_id} to {record.to_version} was interrupted")
    if record.phase is Phase.UNDOING:
        return Decision(Need.UNDO, f"the undo of release {record.release_id} was interrupted")
    if record.phase is Phase.VERIFIED and alias in ("", record.from_version, record.to_version):
        return Decision(Need.SET_ALIAS, f"release {record.release_id} was verified, its alias was not confirmed")
    if alias != record.to_version:
        return Decision(Need.REFUSE, f"the champion alias names {alias or 'nothing'}, the pods serve "
                                     f"{record.to_version or 'nothing'}: someone moved the alias")
    return Decision(Need.NOTHING, f"serving {record.to_version or 'nothing'}")


def _first(template: str, alias: str) -> Decision:
    if template:
        return Decision(Need.REFUSE, f"MODEL_VERSION is {template}, but nothing was ever released here")
    if alias:
        return Decision(Need.REFUSE, f"the champion alias names {alias}, but nothing was ever released here")
    return Decision(Need.NOTHING, "nothing was ever released here")
