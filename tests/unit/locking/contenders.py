"""Contenders for one lock that advance one step at a time: the real code, stopped at every request, reply and sleep.

Each contender is a greenlet that runs the blocking code of :class:`Lock` unchanged. It stops before a request is
applied, before its reply arrives, in every sleep and in every watch; whoever steps it says what happens there. One
that is not stepped is a process that stands still (SIGSTOP, a frozen machine, a slow network).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator
from datetime import datetime, timedelta, timezone
from typing import Any, Literal

from greenlet import GreenletExit, getcurrent, greenlet

from airflow_provider_ragops.exceptions import (
    ClusterError,
    ConflictError,
    LockHeldError,
    LockLostError,
    RagopsError,
    UnreachableError,
)
from airflow_provider_ragops.locking.configmap import ConfigMapStore
from airflow_provider_ragops.locking.lock import Lock
from airflow_provider_ragops.locking.record import LockRecord
from airflow_provider_ragops.locking.times import LockTimes
from tests.fakes.kube import FakeKube, unreachable
from tests.unit.locking.locks import NOON

Fate = Literal["ok", "lost", "touched"]
Stop = Literal["read", "write", "reply to read", "reply to write", "sleep", "watch"]
LOCK = "/api/v1/namespaces/ns/configmaps/the-lock"
TARGET = "/api/v1/namespaces/ns/configmaps/the-target"
# One name for all, as two tries of one task instance have it: only the uuid tells them apart.
HOLDER = "dag/run/task/-1/try 1"
# What a clock may be wrong by: rates of any two differ by less than lease / renew_deadline, offsets by anything.
TIMES = (
    LockTimes(lease=15, renew_deadline=10, retry=2, wait=1e6, max_hold=60),
    LockTimes(lease=45, renew_deadline=30, retry=1, wait=1e6),
)
RATES = (1.0, 1.45, 1.2)


class Server:
    """The API server, the true time, and the histories of the lock and of the object that it protects."""

    def __init__(self) -> None:
        self.now = 0.0
        self.kube = FakeKube()
        self.kube.put(TARGET, {"metadata": {"name": "the-target"}, "data": {"token": "0"}})
        self.kube.after = self._applied
        self.records: list[LockRecord] = []
        self.targets: list[int] = []

    @property
    def record(self) -> LockRecord | None:
        return self.records[-1] if self.records else None

    def version(self, path: str) -> str:
        found = self.kube.objects.get(path)
        return found["metadata"]["resourceVersion"] if found else ""

    def touch(self) -> None:
        """A stranger writes the lock's object without changing the record."""
        if LOCK in self.kube.objects:
            self.kube.put(LOCK, self.kube.objects[LOCK])

    def _applied(self, verb: str, path: str) -> None:
        body = self.kube.objects[path]
        if path == LOCK:
            self.records.append(LockRecord(**json.loads(body["data"]["record"])))
        else:
            self.targets.append(int(body["data"]["token"]))


class Contender:
    """One process. ``step`` lets it go on to its next stop; ``kube`` calls come from its own code."""

    timeout = 1.0

    def __init__(self, server: Server, number: int) -> None:
        self.server, self.number = server, number
        self.rate, self.offset = RATES[number % len(RATES)], 1e4 * number
        self.times = TIMES[number % len(TIMES)]
        self._wall = NOON + timedelta(hours=(number * 7) % 49 - 24)
        self.partitioned = self.paused = self.leaving = False
        self.lock = self._new_lock()
        self.grants: list[int] = []
        #: Where it stands: before a request, before its reply, in a pause.
        self.at: Stop = "sleep"
        self._ready: Callable[[], bool] = lambda: True
        self._life = greenlet(self._run)

    @property
    def alive(self) -> bool:
        return not self._life.dead

    @property
    def ready(self) -> bool:
        return self.alive and not self.paused and self._ready()

    @property
    def believes(self) -> bool:
        """Whether this process would make an effect now, by its own clock."""
        if self.lock._hold is None:  # asked millions of times: an error is slow
            return False
        try:
            self.lock.check()
        except LockLostError:
            return False
        return self.alive

    def step(self, fate: Fate = "ok") -> None:
        self._life.switch("lost" if self.partitioned else fate)

    def kill(self) -> None:
        """SIGKILL: nothing of it runs any more. What it sent and was applied stays applied."""
        self._life.throw(GreenletExit)

    def clock(self) -> float:
        return self.offset + self.rate * self.server.now

    def sleep(self, seconds: float) -> None:
        until = self.server.now + seconds / self.rate
        self._stop("sleep", lambda: self.server.now >= until)

    # What the lock's store calls.

    def get(self, path: str) -> Any:
        return self._call("read", lambda: self.server.kube.get(path), path)

    def create(self, path: str, body: Any) -> Any:
        return self._call("write", lambda: self.server.kube.create(path, body), path)

    def replace(self, path: str, body: Any) -> Any:
        return self._call("write", lambda: self.server.kube.replace(path, body), path)

    def watch(self, path: str, name: str, version: str, seconds: float) -> Generator[Any, None, None]:
        """The server's clock ends the stream; a cut ends it as well. A fast clock shows where one polls."""
        if self.rate == max(RATES):
            raise ClusterError(path, expected="success", seen="403", action="Grant it.")
        until = self.server.now + seconds

        def changed() -> bool:
            return not self.partitioned and self.server.version(f"{path}/{name}") != version

        if self._stop("watch", lambda: changed() or self.server.now >= until) == "ok" and changed():
            yield {"type": "MODIFIED"}

    def _call(self, what: Literal["read", "write"], apply: Callable[[], Any], path: str) -> Any:
        fate = self._stop(what)
        if fate == "touched":
            self.server.touch()
        if fate == "lost":
            raise unreachable(path)
        answer, conflict = None, None
        try:
            answer = apply()
        except ConflictError as error:
            conflict = error
        if self._stop("reply to read" if what == "read" else "reply to write") == "lost":
            raise unreachable(path)  # the reply is lost, what it did is not
        if conflict:
            raise conflict
        return answer

    def _stop(self, at: Stop, ready: Callable[[], bool] = lambda: True) -> Fate:
        self.at, self._ready = at, ready
        fate: Fate = getcurrent().parent.switch()
        return fate

    # What the process does.

    def _run(self, *_: object) -> None:
        while True:
            self.lock = self._new_lock()
            try:
                self.grants.append(self.lock.acquire())
                self._work()
            except (LockLostError, LockHeldError):
                pass
            self.lock.release()
            self.leaving = False

    def _work(self) -> None:
        """Seal the target with the token, then write to it again and again, renewing in between."""
        while not self.leaving:
            self._write_target()
            self.sleep(self.times.renew_deadline / 4)
            try:
                self.lock.renew()
            except LockLostError:
                raise
            except RagopsError:
                continue

    def _write_target(self) -> None:
        try:
            found = self.get(TARGET)
            if int(found["data"]["token"]) > self.lock.token:
                raise self.lock._lost("fenced out")
            self.lock.check()
            self.replace(TARGET, found | {"data": {"token": str(self.lock.token)}})
        except (ConflictError, UnreachableError):
            return

    def _new_lock(self) -> Lock:
        store = ConfigMapStore(self, "ns", "the-lock")  # type: ignore[arg-type]
        return Lock(store, HOLDER, "a test", self.times, clock=self.clock, sleep=self.sleep, now=self._time_of_day)

    def _time_of_day(self) -> datetime:
        """Hours wrong; and it stands still, or is set back by a minute every other minute."""
        if self.number % 2:
            return self._wall
        seconds = self.server.now % 60 if int(self.server.now / 60) % 2 else self.server.now
        return (self._wall + timedelta(seconds=seconds)).astimezone(timezone.utc)
