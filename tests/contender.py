"""Real processes that contend for one lock: ``python -m tests.contender KUBECONFIG NAMESPACE HISTORY COUNT EFFECTS``.

One process imports everything and then forks COUNT contenders, and another one for each that dies, until its
standard input ends. Each takes the lock, makes up to EFFECTS fenced writes to another object, frees it, again and
again, and writes down what it believes (see ``history.py``).
"""

from __future__ import annotations

import ctypes
import json
import logging
import os
import random
import select
import signal
import sys
import time
from pathlib import Path
from typing import Any

from kubernetes import config

from airflow_provider_ragops.exceptions import ConflictError, LockLostError, RagopsError
from airflow_provider_ragops.kube import Kube
from airflow_provider_ragops.locking.configmap import ConfigMapStore
from airflow_provider_ragops.locking.holding import held
from airflow_provider_ragops.locking.lock import Lock
from airflow_provider_ragops.locking.record import LockRecord
from airflow_provider_ragops.locking.store import Stored
from airflow_provider_ragops.locking.times import LockTimes, elapsed

TIMES = LockTimes(lease=3, renew_deadline=2, retry=0.2, wait=600)
REQUEST_TIMEOUT = 1.0
LOCK, TARGET = "the-lock", "the-target"


class Diary:
    """Appends whole lines: a process that dies in between leaves no half one before others'."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def note(self, event: str, **seen: Any) -> None:
        line = {"t": elapsed(), "pid": os.getpid(), "event": event} | seen
        os.write(self._file, json.dumps(line).encode() + b"\n")


class NotingStore(ConfigMapStore):
    """Writes down each write that was applied, with when it was about to be sent."""

    diary: Diary

    def write(self, record: LockRecord, seen: Stored | None) -> Stored:
        sent = elapsed()
        stored = super().write(record, seen)
        if record.holder:
            until = sent + TIMES.renew_deadline
            self.diary.note("wrote", holder=record.holder, token=record.transitions, sent=sent, until=until)
        return stored


class Contender:
    def __init__(self, kube: Kube, namespace: str, diary: Diary, effects: int) -> None:
        self._kube, self._diary, self._effects = kube, diary, effects
        self._store = NotingStore(kube, namespace, LOCK)
        self._store.diary = diary
        self._target = f"/api/v1/namespaces/{namespace}/configmaps/{TARGET}"
        self._random = random.Random(os.getpid())  # noqa: S311

    def turn(self) -> None:
        lock = Lock(self._store, f"p{os.getpid()}", "a turn", TIMES)
        try:
            with held(lock):
                try:
                    self._work(lock)
                finally:  # also where it failed: what follows is the release
                    self._diary.note("releasing", holder=lock.identity)
        except LockLostError as error:
            self._diary.note("lost", holder=lock.identity, why=str(error))
        except RagopsError as error:
            self._diary.note("failed", holder=lock.identity, why=str(error))
            time.sleep(TIMES.retry)

    def _work(self, lock: Lock) -> None:
        for _ in range(self._random.randint(1, self._effects)):
            lock.check()
            try:
                self._affect(lock.token)
            except ConflictError:
                continue
            time.sleep(self._random.uniform(0.02, 0.2))

    def _affect(self, token: int) -> None:
        """Read, compare, replace: what a release does with its target."""
        found = self._kube.get(self._target)
        assert found
        if int(found["data"]["token"]) > token:
            self._diary.note("fenced", token=token, by=found["data"]["token"])
            return
        written = self._kube.replace(self._target, found | {"data": {"token": str(token), "by": str(os.getpid())}})
        self._diary.note("effect", token=token, version=written["metadata"]["resourceVersion"])


def contend(kubeconfig: str, namespace: str, diary: Diary, effects: int) -> None:
    kube = Kube(config.new_client_from_config(kubeconfig), REQUEST_TIMEOUT)
    contender = Contender(kube, namespace, diary, effects)
    while True:
        contender.turn()


def main(kubeconfig: str, namespace: str, history: str, count: str, effects: str) -> None:
    logging.disable(logging.WARNING)
    diary, alive = Diary(Path(history)), set[int]()
    while not select.select([sys.stdin], [], [], 0.02)[0]:
        while len(alive) < int(count):
            if not (pid := os.fork()):
                ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: none outlives this one
                contend(kubeconfig, namespace, Diary(Path(history)), int(effects))
            alive.add(pid)
            diary.note("born", child=pid)
        while (gone := os.waitpid(-1, os.WNOHANG)[0]) if alive else 0:
            alive.discard(gone)
            diary.note("died", child=gone)
    for pid in alive:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


if __name__ == "__main__":
    main(*sys.argv[1:])
