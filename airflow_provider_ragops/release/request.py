"""What is asked of a release, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ReleaseRequest:
    """One version for one target.

    :param release_id: who asks: the same for every try of one task instance.
    :param actor: for people: DAG, run, task, try, and who triggered it.
    :param manual: a person chose the version: a hold, an older partition and another champion since the gate's
        verdict do not stop it.
    :param rollback: the version takes the place of a bad one, which is quarantined; the target is put on hold.
    :param approval: who approved it and why, where the version has no gate report that says promote.
    """

    version: str
    release_id: str
    actor: str
    reason: str
    manual: bool = False
    rollback: bool = False
    approval: str = ""


@dataclass(frozen=True)
class ReleaseOutcome:
    """``changed`` is False where the version was already served; ``verified`` alone means that no alias was moved."""

    version: str
    previous: str
    token: int
    release_id: str
    changed: bool
