"""What comes of a person's request: refused with every reason, asked about, or done. Pure; nothing is locked yet.

It only saves the person a wait. What counts is checked again under the lock, by the release itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from airflow_provider_ragops.contract import TAG_GATE_VERDICT, ServingTarget
from airflow_provider_ragops.exceptions import ReleaseRefusedError
from airflow_provider_ragops.promotion.registry import VersionInfo
from airflow_provider_ragops.promotion.report import PROMOTE
from airflow_provider_ragops.release.checks import faults_of_version
from airflow_provider_ragops.release.record import Phase, ReleaseRecord
from airflow_provider_ragops.release.request import ReleaseRequest


class Action(StrEnum):
    """What a person can ask of a serving target; the words of the form."""

    RELEASE = "release"
    ROLL_BACK = "roll back"
    HOLD = "hold"
    LIFT = "lift the hold"


@dataclass(frozen=True)
class Wish:
    """:param version: ``""`` where none was named."""

    target: ServingTarget
    action: Action
    version: str
    reason: str


class Step(StrEnum):
    """What happens next."""

    RELEASE = "release"
    APPROVE = "approve"  # a person's answer first: the gate did not say promote
    ROLL_BACK = "roll back"  # to the recorded last good version
    HOLD = "hold"
    LIFT = "lift"


_WITHOUT_VERSION = {Action.ROLL_BACK: Step.ROLL_BACK, Action.HOLD: Step.HOLD, Action.LIFT: Step.LIFT}


def step_without_version(wish: Wish) -> Step | None:
    """The step that needs no look at the registry, which may be what is down; None where a version is to be judged.

    :raises ReleaseRefusedError: when the version is missing, or there is one too many.
    """
    if wish.version and wish.action in (Action.HOLD, Action.LIFT):
        raise _refused(wish, "no version", f"version {wish.version}", "Leave 'version' empty.")
    if wish.version:
        return None
    if wish.action is Action.RELEASE:
        raise _refused(wish, "a version", "none", "Fill in 'version': its number, as MLflow's model page shows it.")
    return _WITHOUT_VERSION[wish.action]


def step_for_version(wish: Wish, candidate: VersionInfo, record: ReleaseRecord | None) -> Step:
    """:raises ReleaseRefusedError: with every reason why this version can't be released, approved or not."""
    if reasons := list(_reasons(wish, candidate, record)):
        raise _refused(wish, "a version that can be released", "; ".join(reasons), "Choose another version.")
    return Step.RELEASE if candidate.tags.get(TAG_GATE_VERDICT) == PROMOTE else Step.APPROVE


def _reasons(wish: Wish, candidate: VersionInfo, record: ReleaseRecord | None) -> Iterator[str]:
    # As if approved: the question is whether an approval could help at all.
    yield from faults_of_version(candidate, ReleaseRequest(
        wish.version, "", "", wish.reason, manual=True, approval="to be asked for",
    ))
    if record and record.to_version == wish.version and record.phase in (Phase.DONE, Phase.UNDONE):
        yield f"it is what {wish.target.slug} serves now"


def _refused(wish: Wish, expected: str, seen: str, action: str) -> ReleaseRefusedError:
    what = f"version {wish.version} of {wish.target.model}" if wish.version else wish.target.model
    return ReleaseRefusedError(
        f"{wish.action.value!r} of {what} at {wish.target.slug}", expected=expected, seen=seen,
        action=f"Nothing was touched. {action}",
    )
