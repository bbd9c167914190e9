"""The release of one version to one serving target: seal, reconcile, check, roll, verify, promote, clean up.

One process does it all while it holds the lock. Each step reads the world, decides, and makes one effect; whatever
happens between two effects, the record says where to go on.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

from airflow_provider_ragops.contract import (
    TAG_GATE_REPORT,
    TAG_PARTITION,
    TAG_QUARANTINED,
    TAG_RELEASE_ID,
    TAG_REPLACED_BY,
    ServingTarget,
)
from airflow_provider_ragops.exceptions import (
    RegistryError,
    ReleaseRefusedError,
    RolloutFailedError,
    TargetError,
    UnreachableError,
)
from airflow_provider_ragops.promotion.ledger import Ledger, LedgerEntry, Outcome
from airflow_provider_ragops.promotion.registry import ModelRegistry, VersionInfo
from airflow_provider_ragops.release.checks import require_releasable, require_rollable
from airflow_provider_ragops.release.fence import Fence
from airflow_provider_ragops.release.reconcile import Need, decide
from airflow_provider_ragops.release.record import Phase, ReleaseRecord
from airflow_provider_ragops.release.rollback import undo
from airflow_provider_ragops.release.verify import Verification
from airflow_provider_ragops.rollout.status import State, read_rollout, version_of
from airflow_provider_ragops.rollout.updater import Updater

log = logging.getLogger(__name__)
Json = dict[str, Any]

# Reading the world, acting on it and reading again ends at the latest after one undo, one alias and one look.
_ROUNDS = 4


@dataclass(frozen=True)
class ReleaseRequest:
    """:param release_id: who asks: the same for every try of one task instance."""

    version: str
    release_id: str
    actor: str
    reason: str


@dataclass(frozen=True)
class ReleaseOutcome:
    """``changed`` is False where the version was already the served champion."""

    version: str
    previous: str
    token: int
    release_id: str
    changed: bool


@dataclass
class Release:
    """One release's collaborators.

    :param guard: called before each effect with the seconds that must be left of the hold; raises
        ``LockLostError`` or the task's own stop.
    :param renew: renews the hold, just before what is not fenced.
    :param timeout: seconds for a rollout, and again for an undo.
    :param clean: removes what no version needs any more, given the versions to keep; None where nothing is shared.
    """

    target: ServingTarget
    updater: Updater
    registry: ModelRegistry
    ledger: Ledger
    guard: Callable[[float], None]
    renew: Callable[[], None] = lambda: None
    timeout: float = 900.0
    clean: Callable[[set[str]], None] | None = None
    now: Callable[[], datetime] = lambda: datetime.now(timezone.utc)
    fence: Fence = field(init=False)

    def __post_init__(self) -> None:
        self.fence = Fence(self.updater, self.target, lambda: self.guard(2.0))

    def run(self, request: ReleaseRequest, lock_token: int) -> ReleaseOutcome:
        """Release ``request.version``.

        :raises ReleaseRefusedError: a check said no, and nothing was touched; or a person changed the target, and
            the edit was left as it is.
        :raises RolloutFailedError: the version did not come up or answered badly; the target was set back.
        :raises FencedOutError: a newer release went on without this one.
        """
        _, record = self.fence.seal(lock_token)
        record, resuming = self._reconcile(record, request)
        if record.to_version == request.version and not resuming:
            log.info("version %s is already the served champion of %s", request.version, self.target.slug)
            self._clean(record)
            return ReleaseOutcome(request.version, record.from_version, self.fence.token, record.release_id, False)
        candidate = self.registry.version(self.target.model, request.version)
        if not resuming:
            self._require_releasable(candidate, record)
        example = self.registry.input_example(self.target.model, request.version)
        verification = Verification(self.updater, self.target, self.guard)
        verification.measure_before(record.from_version if resuming else record.to_version, example)
        if not resuming:
            # Not the request's id alone: each rollout is an entry of its own, also the second one of a retried task.
            rollout = f"{request.release_id}-{self.fence.token}"
            self._open(rollout, request, record, candidate)
            record = record.rolling(rollout, request.version)
        written = self.fence.write(record, request.version)
        fault = self._roll(written, request.version, example) or verification.fault(request.version, example)
        if fault:
            back = self._undo(record, fault)
            raise RolloutFailedError(
                f"release of version {request.version} to {self.target.slug}",
                expected="every pod to serve it and answer", seen=fault,
                action=f"Version {back.to_version or 'none'} is serving again; {request.version} is quarantined.",
            )
        record = record.with_phase(Phase.VERIFIED)
        self.fence.write(record)
        self._promote(record, candidate)
        self._clean(record)
        return ReleaseOutcome(request.version, record.from_version, self.fence.token, record.release_id, True)

    def _reconcile(self, record: ReleaseRecord, request: ReleaseRequest) -> tuple[ReleaseRecord, bool]:
        """Bring the world to where a release may start; True when the wanted one is to be resumed."""
        for _ in range(_ROUNDS):
            template = version_of(self.updater.read()["spec"]["template"], self.target.container)
            # Where pods are on the way the alias does not matter, and MLflow may be what is down.
            moving = record.phase in (Phase.ROLLING, Phase.UNDOING)
            alias = "" if moving else self._alias()
            decision = decide(record, template, alias, request.version)
            log.info("reconcile: %s: %s", decision.need, decision.reason)
            if decision.need is Need.NOTHING:
                self._close_stale()
                return record, False
            if decision.need is Need.RESUME:
                return record, True
            if decision.need is Need.REFUSE:
                raise self._edited(decision.reason)
            if decision.need is Need.UNDO:
                record = self._undo(record, "")
            else:
                record = self._promote(record, self.registry.version(self.target.model, record.to_version))
        raise TargetError(
            f"Deployment {self.target.slug}", expected=f"a whole world after {_ROUNDS} rounds of reconcile",
            seen=decision.reason, action="Look at the release record and the alias.",
        )

    def _edited(self, seen: str) -> ReleaseRefusedError:
        return ReleaseRefusedError(
            f"release to {self.target.slug}", expected="the target as the last release left it", seen=seen,
            action="The edit was left as it is. Set it back by hand, then clear this task.",
        )

    def _alias(self) -> str:
        return self.registry.alias(self.target.model, self.target.champion) or ""

    def _require_releasable(self, candidate: VersionInfo, record: ReleaseRecord) -> None:
        require_releasable(candidate, record)
        require_rollable(read_rollout(self.updater.read(), self.target.container), self.target.slug)

    def _close_stale(self) -> None:
        """Entries of releases that ended between opening the ledger and touching the target."""
        for entry in self.ledger.open_entries(self.target.slug):
            self._close(entry.release_id, "aborted", "it ended before it touched the target")

    def _close(self, release_id: str, outcome: Outcome, reason: str) -> None:
        """The ledger is derived: an entry that is missing or was closed otherwise must not stop a release."""
        try:
            self.ledger.close(release_id, outcome, reason)
        except RegistryError:
            log.exception("ledger entry %s could not be closed as %s", release_id, outcome)

    def _undo(self, record: ReleaseRecord, fault: str) -> ReleaseRecord:
        return undo(
            record, fault, self.fence, self.updater,
            settle=self._settle, timeout=self.timeout, guard=lambda: self.guard(2.0),
        )

    def _settle(self, back: ReleaseRecord) -> None:
        """Quarantine a version that was undone for a fault, and close its entry."""
        if back.fault:
            self.registry.set_tags(self.target.model, back.from_version, {TAG_QUARANTINED: back.fault})
        self._close(back.release_id, "undone", back.fault or "its release was interrupted, another version was wanted")

    def _open(
        self, release_id: str, request: ReleaseRequest, record: ReleaseRecord, candidate: VersionInfo,
    ) -> None:
        self.ledger.open(LedgerEntry(
            release_id=release_id, target=self.target.slug, model=self.target.model,
            from_version=record.to_version or None, to_version=request.version, token=self.fence.token,
            actor=request.actor, reason=request.reason, gate_report=candidate.tags.get(TAG_GATE_REPORT, ""),
            opened_at=self.now(),
        ))

    def _roll(self, written: Json, version: str, example: Json) -> str:
        progress = self.updater.wait(written, version, example, self.timeout, lambda: self.guard(0.0))
        return "" if progress.state is State.DONE else progress.reason

    def _promote(self, record: ReleaseRecord, candidate: VersionInfo) -> ReleaseRecord:
        """Move the alias, close the ledger, and only then say ``done``; safe to repeat."""
        model, version = self.target.model, record.to_version
        if (alias := self._alias()) not in ("", record.from_version, version):
            raise self._edited(f"the champion alias was moved to {alias} meanwhile")
        # Alias writes are not fenced: the hold must be as fresh as it can be.
        self.renew()
        self.guard(2.0)
        self.registry.set_alias(model, self.target.champion, version)
        self._tag(record)
        self._close(record.release_id, "released", f"served by {self.target.slug} and verified")
        if (found := self._alias()) != version:
            raise RegistryError(
                f"alias {self.target.champion!r} of model {model}", expected=f"version {version}, just written",
                seen=f"version {found or 'none'}", action="Someone else moved it meanwhile; find out who.",
            )
        done = record.done(candidate.tags.get(TAG_PARTITION, ""))
        self.fence.write(done)
        log.info("version %s is champion of %s", version, self.target.slug)
        return done

    def _tag(self, record: ReleaseRecord) -> None:
        """Both versions say what became of them; the released one waits no longer under the challenger alias."""
        model, version = self.target.model, record.to_version
        self.registry.set_tags(model, version, {TAG_RELEASE_ID: record.release_id})
        if record.from_version:
            self.registry.set_tags(model, record.from_version, {TAG_REPLACED_BY: version})
        if self.registry.alias(model, self.target.challenger) == version:
            self.registry.delete_alias(model, self.target.challenger)

    def _clean(self, record: ReleaseRecord) -> None:
        if self.clean is None:
            return
        self.guard(2.0)
        try:
            waiting = self.registry.alias(self.target.model, self.target.challenger) or ""
            self.clean({record.to_version, record.from_version, record.last_good, waiting} - {""})
        except UnreachableError:
            # The release stands. Keys that stay behind are removed by the next release of this target.
            log.exception("clean-up of old versions' keys did not finish")
