"""Contending processes, their history as it grows, and signals to them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from demo.paths import ROOT
from kubernetes import client

from tests.contender import TARGET
from tests.history import Event, parse
from tests.integration.locking.conftest import Place


class Processes:
    """``events`` is what they wrote down so far; ``alive`` who lives; ``holder`` who wrote the lock last."""

    def __init__(self, history: Path) -> None:
        self._history = history.open()
        self._rest = ""
        self.events: list[Event] = []
        self.alive: set[int] = set()

    def look(self) -> list[Event]:
        """Read what is new."""
        lines = (self._rest + self._history.read()).splitlines(keepends=True)
        self._rest = lines.pop() if lines and not lines[-1].endswith("\n") else ""
        fresh = parse(lines)
        self.alive |= {event["child"] for event in fresh if event["event"] == "born"}
        self.alive -= {event["child"] for event in fresh if event["event"] == "died"}
        self.events += fresh
        return fresh

    def wait_for(self, wanted: Callable[[Event], bool], seconds: float = 60) -> Event:
        """The first such event that is not older than this call."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            found = next(filter(wanted, self.look()), None)
            if found:
                return found
            time.sleep(0.02)
        raise AssertionError(f"no such event within {seconds} s; the last ones: {self.events[-5:]}")

    @property
    def holder(self) -> int:
        return next((event["pid"] for event in reversed(self.events) if event["event"] == "wrote"), 0)

    def signal(self, pid: int, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):  # it may have been killed, and not yet written down as dead
            os.kill(pid, number)

    def close(self) -> None:
        self._history.close()


@contextmanager
def contending(place: Place, folder: Path, count: int, effects: int) -> Iterator[Processes]:
    """``count`` processes, each replaced when it dies, that make up to ``effects`` effects per hold."""
    history = folder / "history.jsonl"
    history.touch()
    body = {"metadata": {"name": TARGET}, "data": {"token": "0"}}
    client.CoreV1Api(place.api).create_namespaced_config_map(place.namespace, body, _request_timeout=10)
    command = [sys.executable, "-m", "tests.contender", str(place.kubeconfig), place.namespace, str(history)]
    parent = subprocess.Popen([*command, str(count), str(effects)], cwd=ROOT, stdin=subprocess.PIPE)
    processes = Processes(history)
    try:
        yield processes
    finally:
        assert parent.stdin
        parent.stdin.close()
        try:
            assert parent.wait(timeout=30) == 0
        finally:
            parent.kill()  # its children die with it
            parent.wait(timeout=30)
            processes.look()
            processes.close()
