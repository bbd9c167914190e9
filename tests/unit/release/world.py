"""A serving tier, a registry, a ledger, a Redis and a lock with real write semantics; and one process that releases."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pytest

from airflow_provider_ragops.contract import (
    ANNOTATION_RELEASE,
    LABEL_BLESSING,
    NO_VERSION,
    TAG_COMPLETED,
    TAG_GATE_CHAMPION,
    TAG_GATE_VERDICT,
    TAG_PARTITION,
    ServingTarget,
)
from airflow_provider_ragops.locking.configmap import ConfigMapStore
from airflow_provider_ragops.locking.lock import Lock
from airflow_provider_ragops.locking.times import LockTimes
from airflow_provider_ragops.release import procedure
from airflow_provider_ragops.release.repair import Finding, repair
from airflow_provider_ragops.release.request import ReleaseOutcome, ReleaseRequest
from airflow_provider_ragops.release.session import Session
from airflow_provider_ragops.rollout.reading import read_pod
from airflow_provider_ragops.rollout.updater import Updater
from tests.fakes.kube import FakeTier
from tests.fakes.registry import FakeLedger, FakeRegistry

TARGET = ServingTarget("ml-serving", "M")
TIMES = LockTimes(lease=30, renew_deadline=20, retry=2, wait=600)


class Killed(BaseException):
    """The process is gone: nothing of it runs after this, not even the release of its lock."""


Guard = Callable[[float], None]
Result = TypeVar("Result")


@dataclass
class World:
    """Everything outside the release's process."""

    tier: FakeTier = field(default_factory=FakeTier)
    registry: FakeRegistry = field(default_factory=FakeRegistry)
    ledger: FakeLedger = field(default_factory=FakeLedger)
    #: Versions that have keys in Redis.
    keys: set[str] = field(default_factory=set)
    #: Of these, versions whose keys another model's version of the same number wrote.
    stale: set[str] = field(default_factory=set)
    kept: list[Mapping[str, str]] = field(default_factory=list)
    key_space_fault: str = ""
    guard: Guard = lambda spare: None

    def release(
        self, version: str, *, release_id: str = "", guard: Guard | None = None, **asked: Any,
    ) -> ReleaseOutcome:
        request = ReleaseRequest(version, release_id or f"r{version}", "a test", "why not", **asked)
        return self.under_lock(lambda session, token: procedure.release(session, request, token), guard)

    def die_in_mid_rollout(self, version: str) -> None:
        """The process of a release is killed as soon as the Deployment names the version."""

        def die(_: float) -> None:
            if self.tier.version() == version:
                raise SystemExit

        with pytest.raises(SystemExit):
            self.release(version, guard=die)

    def roll_back(self, reason: str = "it is bad") -> ReleaseOutcome:
        request = ReleaseRequest("", "back", "a person", reason, manual=True)
        return self.under_lock(lambda session, token: procedure.roll_back(session, request, token))

    def repair(self) -> list[Finding]:
        return self.under_lock(repair)

    def under_lock(self, work: Callable[[Session, int], Result], guard: Guard | None = None) -> Result:
        """One process: takes the lock, works, frees it; unless it is killed."""
        time = self.tier.time
        store = ConfigMapStore(self.tier, TARGET.namespace, TARGET.lock_name)  # type: ignore[arg-type]
        lock = Lock(store, "a test", "a purpose", TIMES, clock=time.clock, sleep=time.sleep)
        token = lock.acquire()
        try:
            result = work(self.session(lock, guard or self.guard), token)
        except Exception:
            lock.release()
            raise
        lock.release()
        return result

    def session(self, lock: Lock, guard: Guard) -> Session:
        time = self.tier.time
        renewed = [time.clock()]

        def check(spare: float) -> None:
            guard(spare)
            # What the renewal thread does meanwhile.
            if time.clock() - renewed[0] > TIMES.renew_deadline / 4:
                lock.renew()
                renewed[0] = time.clock()
            lock.check(spare)

        updater = Updater(self.tier, TARGET, clock=time.clock, sleep=time.sleep)  # type: ignore[arg-type]
        return Session(
            TARGET, updater, self.registry, self.ledger, check, renew=lock.renew, timeout=60,
            blessing_timeout=30, keys=self,
        )

    # What the session asks of Redis.

    def clean(self, keep: Mapping[str, str]) -> Mapping[str, str]:
        self.kept.append(keep)
        self.keys &= keep.keys()
        return {}

    def clean_stale(self, runs: Mapping[str, str]) -> None:
        self.keys -= {version for version in runs if version in self.stale}
        self.stale -= runs.keys()

    def leftovers(self, keep: Mapping[str, str]) -> Mapping[str, int]:
        return dict.fromkeys(sorted(self.keys - keep.keys()), 1)

    def fault(self, runs: Mapping[str, str]) -> str:
        return self.key_space_fault

    def add(self, version: str, against: str = NO_VERSION, partition: str = "2026-01-01", **tags: str) -> None:
        self.registry.add(version, **{
            TAG_COMPLETED: "a", TAG_GATE_VERDICT: "promote", TAG_GATE_CHAMPION: against, TAG_PARTITION: partition,
        }, **tags)

    def outcomes(self, version: str) -> list[str | None]:
        return [entry.outcome for entry in self.ledger.entries.values() if entry.to_version == version]

    @property
    def record(self) -> dict[str, str]:
        found: dict[str, str] = json.loads(self.tier.deployment["metadata"]["annotations"][ANNOTATION_RELEASE])
        return found

    @property
    def lock(self) -> dict[str, str]:
        path = f"/api/v1/namespaces/{TARGET.namespace}/configmaps/{TARGET.lock_name}"
        found: dict[str, str] = json.loads(self.tier.objects[path]["data"]["record"])
        return found

    def pod_versions(self) -> set[str]:
        return {pod.version for pod in (read_pod(pod, TARGET.container) for pod in self.tier.pods)}

    def assert_whole(self, version: str) -> None:
        """Alias, template, pods and record name the same version, no ledger entry is open, the lock is free."""
        assert self.tier.version() == version
        assert self.pod_versions() == {version}
        assert self.registry.aliases.get("champion", "") == version
        assert self.record["to_version"] == version
        assert self.record["phase"] in ("done", "undone")
        assert not self.ledger.open_entries(TARGET.slug)
        assert self.lock["holder"] == ""
        assert self.tier.list("/pods", LABEL_BLESSING) == []


def make_world_serving(version: str = "1") -> World:
    world = World()
    world.add(version)
    world.release(version)
    return world


def make_world_with_candidate() -> World:
    """Version 1 serves; version 2 passed the gate against it and waits."""
    world = make_world_serving("1")
    world.add("2", against="1", partition="2026-02-01")
    return world
