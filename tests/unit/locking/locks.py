"""A lock on a store with real write semantics, in a time that passes only by sleeping."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from typing import Any

from airflow_provider_ragops.locking.configmap import ConfigMapStore
from airflow_provider_ragops.locking.lock import Lock
from airflow_provider_ragops.locking.record import LockRecord
from airflow_provider_ragops.locking.times import LockTimes
from tests.fakes.kube import FakeKube, unreachable
from tests.fakes.time import Clock, FakeTime

PATH = "/api/v1/namespaces/ns/configmaps/the-lock"
TIMES = LockTimes(lease=15, renew_deadline=10, retry=2, wait=60, max_hold=120)
NOON = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)


class World:
    """One API server and one time; ``lock`` is made by a process of any machine in it."""

    def __init__(self, can_watch: bool = True) -> None:
        self.time, self.kube = FakeTime(), FakeKube()
        if can_watch:
            self.kube.time = self.time

    def lock(
        self, holder: str = "dag/run/task/-1/try 1", times: LockTimes = TIMES, clock: Clock | None = None,
        wall: datetime = NOON,
    ) -> Lock:
        clock = clock or Clock(self.time)
        store = ConfigMapStore(self.kube, "ns", "the-lock")  # type: ignore[arg-type]
        return Lock(store, holder, "a test", times, clock=clock.clock, sleep=clock.sleep, now=lambda: wall)

    @property
    def body(self) -> dict[str, Any]:
        return self.kube.objects[PATH]

    @property
    def record(self) -> LockRecord:
        return LockRecord(**json.loads(self.body["data"]["record"]))

    def lose_reply(self) -> None:
        """The next write is applied, and its reply is lost."""

        def lost(verb: str, path: str) -> None:
            self.kube.after = lambda verb, path: None
            raise unreachable(path)

        self.kube.after = lost

    def cut_off(self) -> None:
        """From now on the API server does not answer."""

        def lost(verb: str, path: str) -> None:
            raise unreachable(path)

        self.kube.before = lost
