"""What one holder of the lock works with, and how it sees the world."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Protocol

from airflow_provider_ragops.contract import ServingTarget
from airflow_provider_ragops.exceptions import RegistryError, ReleaseRefusedError, VersionMissingError
from airflow_provider_ragops.promotion.ledger import Ledger, Outcome, overtaken
from airflow_provider_ragops.promotion.registry import ModelRegistry
from airflow_provider_ragops.release.fence import Fence
from airflow_provider_ragops.release.reconcile import World
from airflow_provider_ragops.release.record import MOVING, ReleaseRecord
from airflow_provider_ragops.rollout.reading import version_of
from airflow_provider_ragops.rollout.updater import Updater

log = logging.getLogger(__name__)

# Seconds that must be left of the hold when an effect starts: longer than a usual call takes.
SPARE = 2.0


class Keys(Protocol):
    """Redis keys of the target's model, by version.

    :raises UnreachableError: from each method, when Redis does not answer.
    """

    def clean(self, keep: Mapping[str, str]) -> Mapping[str, str]:
        """Remove the keys of versions that nothing refers to; ``keep`` says who refers to which.

        :returns: what is left of them, and why.
        """

    def clean_stale(self, runs: Mapping[str, str]) -> None:
        """Remove the keys of these versions that an earlier life of their number left: another training run's."""

    def leftovers(self, keep: Mapping[str, str]) -> Mapping[str, int]:
        """Count what ``clean`` would remove, by version."""

    def fault(self, runs: Mapping[str, str]) -> str:
        """What is wrong with the keys of two versions that run side by side (old, new: training run); ``""`` for
        nothing."""


@dataclass
class Session:
    """One holder's collaborators.

    :param guard: called before each effect with the seconds that must be left of the hold; raises
        ``LockLostError`` or the task's own stop.
    :param renew: renews the hold, just before what is not fenced, and lets the lock's token rise to ours.
    :param timeout: seconds for a rollout, and again for an undo.
    :param blessing_timeout: seconds for the candidate to load and answer in a pod beside the tier; None: it is not
        tried there.
    :param keys: the Redis that the target's pods share; None where nothing is shared.
    """

    target: ServingTarget
    updater: Updater
    registry: ModelRegistry
    ledger: Ledger
    guard: Callable[[float], None]
    renew: Callable[[int], None] = lambda _: None
    timeout: float = 900.0
    blessing_timeout: float | None = 300.0
    keys: Keys | None = None
    now: Callable[[], datetime] = lambda: datetime.now(timezone.utc)
    fence: Fence = field(init=False)

    def __post_init__(self) -> None:
        self.fence = Fence(self.updater, self.target, self.check)

    def check(self) -> None:
        self.guard(SPARE)

    def seal(self, lock_token: int) -> ReleaseRecord:
        """Take the target over from whoever held it before; what is read from now on counts."""
        record = self.fence.seal(lock_token)[1]
        # The lock remembers the token too: should the record be undone by hand, the next one is larger all the same.
        self.renew(self.fence.token)
        return record

    def alias(self) -> str:
        return self.registry.alias(self.target.model, self.target.champion) or ""

    def observe(self) -> World:
        """Read the world: the Deployment and its pods, and, where they are settled, what is derived from them."""
        found = self.updater.read()
        record = self.fence.record(found)
        template = version_of(found["spec"]["template"], self.target.container)
        pods = frozenset(pod.version for pod in self.updater.pods(found))
        if record and record.phase in MOVING:
            return World(record, template, pods)
        alias = self.alias()
        lost = not alias and bool(record and record.to_version) and not self.has(template)
        entries = tuple(entry.release_id for entry in self.ledger.open_entries(self.target.slug))
        return World(record, template, pods, alias, self._late(record, alias), lost, entries)

    def has(self, version: str) -> bool:
        """Whether the registry still knows the version: one that serves may have been deleted there."""
        return bool(version) and self.run_of(version) is not None

    def run_of(self, version: str) -> str | None:
        """The training run of a version; None where it was deleted."""
        try:
            return self.registry.version(self.target.model, version).run_id
        except VersionMissingError as error:
            log.warning("version %s of %s: %s", version, self.target.model, error)
            return None

    def _late(self, record: ReleaseRecord | None, alias: str) -> bool:
        served = record.to_version if record else ""
        if alias in ("", served):
            return False
        return overtaken(self.ledger.history(self.target.slug), alias)

    def close(self, release_id: str, outcome: Outcome, reason: str) -> None:
        """The ledger is derived: an entry that is missing or was closed otherwise must not stop a release."""
        try:
            self.ledger.close(release_id, outcome, reason, self.fence.token)
        except RegistryError:
            log.exception("ledger entry %s could not be closed as %s", release_id, outcome)

    def edited(self, seen: str) -> ReleaseRefusedError:
        return ReleaseRefusedError(
            f"release to {self.target.slug}", expected="the target as the last release left it", seen=seen,
            action="The edit was left as it is. Set it back by hand, then clear this task.",
        )
