"""The release record: one JSON annotation on the Deployment. It is the truth; alias and ledger are derived."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields, replace
from enum import StrEnum
from typing import Any

from airflow_provider_ragops.contract import ANNOTATION_RELEASE, Partition
from airflow_provider_ragops.exceptions import TargetError

SCHEMA = 1
_LONGEST = 500  # characters of a text; all annotations of an object share 256 KiB


class Phase(StrEnum):
    """Where a release stands. Every phase but ``DONE`` and ``UNDONE`` is resumed by whoever comes next."""

    ROLLING = "rolling"  # MODEL_VERSION was written, pods are changing
    VERIFIED = "verified"  # every pod serves ``to``; the alias may still lag
    DONE = "done"  # alias and ledger follow
    UNDOING = "undoing"  # MODEL_VERSION was set back, pods are changing
    ROLLING_BACK = "rolling back"  # the same for a release that was finished: the alias moves back, too
    UNDONE = "undone"  # every pod serves ``to``, which is the last good version again


# Pods are on the way: MLflow is not asked, it may be what is down.
MOVING = frozenset({Phase.ROLLING, Phase.UNDOING, Phase.ROLLING_BACK})
GOING_BACK = frozenset({Phase.UNDOING, Phase.ROLLING_BACK})


@dataclass(frozen=True)
class ReleaseRecord:
    """What is, or was last, released to a target.

    ``token`` only grows. ``to_version`` is what the template names, ``from_version`` what it named before;
    ``last_good`` is what an undo goes back to (``""``: to no version). ``newest_partition`` is the newest ever
    released, so that a late run can't replace a newer model. ``hold`` stops automatic releases and says why.
    ``fault`` is why ``from_version`` was taken away: by an undo, or by a rollback; empty where an undo only clears
    the way for another version. ``blamed`` says that it is that version's own doing: it is quarantined then.
    ``actor`` asked for the release.
    """

    model: str
    token: int = 0
    release_id: str = ""
    from_version: str = ""
    to_version: str = ""
    last_good: str = ""
    newest_partition: str = ""
    phase: Phase = Phase.DONE
    hold: str = ""
    fault: str = ""
    blamed: bool = False
    actor: str = ""
    schema: int = SCHEMA

    def sealed(self, token: int) -> ReleaseRecord:
        return replace(self, token=token)

    def rolling(self, release_id: str, version: str, actor: str, fault: str = "") -> ReleaseRecord:
        """:param fault: what is wrong with the version that is replaced, where a person rolls back by a release."""
        return replace(
            self, release_id=release_id, from_version=self.to_version, to_version=version,
            last_good=self.to_version, phase=Phase.ROLLING, actor=actor[:_LONGEST], fault=fault[:_LONGEST],
            blamed=bool(fault),
        )

    def undoing(self, fault: str, *, blamed: bool) -> ReleaseRecord:
        return self._back(Phase.UNDOING, fault, blamed)

    def rolling_back(self, release_id: str, actor: str, fault: str) -> ReleaseRecord:
        """A finished release is taken back; this is a release of its own, with an entry of its own."""
        back = self._back(Phase.ROLLING_BACK, fault, blamed=True)
        return replace(back, release_id=release_id, actor=actor[:_LONGEST])

    def _back(self, phase: Phase, fault: str, blamed: bool) -> ReleaseRecord:
        return replace(
            self, from_version=self.to_version, to_version=self.last_good, phase=phase, fault=fault[:_LONGEST],
            blamed=blamed,
        )

    def held(self, reason: str) -> ReleaseRecord:
        """On hold for a reason; an empty one lifts the hold."""
        return replace(self, hold=reason[:_LONGEST])

    def with_phase(self, phase: Phase) -> ReleaseRecord:
        return replace(self, phase=phase)

    def done(self, partition: str) -> ReleaseRecord:
        """The newest partition is the one that ends last, not the one whose text sorts last."""
        newest = max(self.newest_partition, partition, key=_end_of)
        return replace(self, phase=Phase.DONE, newest_partition=newest)

    def dump(self) -> str:
        return json.dumps(asdict(self), sort_keys=True)


def _end_of(partition: str) -> float:
    return Partition.parse(partition).end.timestamp() if partition else float("-inf")


def read_record(deployment: dict[str, Any], model: str, subject: str) -> ReleaseRecord | None:
    """The Deployment's record; ``None`` where nothing was ever released to it.

    :raises TargetError: when the annotation is no record of a known schema, or belongs to another model.
    """
    record = any_record(deployment, subject)
    if record and record.model != model:
        raise _broken(subject, f"a target of model {model!r}", f"model {record.model!r}")
    return record


def any_record(deployment: dict[str, Any], subject: str) -> ReleaseRecord | None:
    """The record of whatever model, or ``None``.

    :raises TargetError: when the annotation is no record of a known schema.
    """
    text = (deployment["metadata"].get("annotations") or {}).get(ANNOTATION_RELEASE)
    if text is None:
        return None
    try:
        found = json.loads(text)
        values = {field.name: found[field.name] for field in fields(ReleaseRecord)}
        record = ReleaseRecord(**{**values, "phase": Phase(values["phase"]), "token": int(values["token"])})
    except (ValueError, KeyError, TypeError) as error:
        raise _broken(subject, f"a release record of schema {SCHEMA}", repr(text[:300])) from error
    if record.schema != SCHEMA:
        raise _broken(subject, f"a release record of schema {SCHEMA}", f"schema {record.schema}")
    return record


def _broken(subject: str, expected: str, seen: str) -> TargetError:
    return TargetError(
        f"release record of {subject}", expected=expected, seen=seen,
        action=f"Nothing was changed. Find out who wrote the annotation {ANNOTATION_RELEASE}.",
    )
