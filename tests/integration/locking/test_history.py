"""L16: twenty processes, killed, stopped and resumed at random for a while; their histories are checked offline."""

from __future__ import annotations

import random
import signal
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.contender import TIMES
from tests.history import beliefs, problems
from tests.integration.locking.conftest import Place
from tests.integration.locking.processes import Processes, contending

pytestmark = pytest.mark.cluster

COUNT = 20
MOST_STOPPED = 6


class Disturber:
    """Sends a signal every now and then, a quarter of them to whoever holds the lock."""

    def __init__(self, processes: Processes, seed: int) -> None:
        self._processes, self._random = processes, random.Random(seed)  # noqa: S311
        self._stopped: dict[int, float] = {}
        self.sent: Counter[str] = Counter()

    def disturb(self) -> None:
        self._processes.look()
        now = time.monotonic()
        for pid in [pid for pid, until in self._stopped.items() if until <= now]:
            self._send(pid, signal.SIGCONT)
            del self._stopped[pid]
        victim = self._victim()
        if victim and self._random.random() < 0.4:
            self._send(victim, signal.SIGKILL)
        elif victim and len(self._stopped) < MOST_STOPPED:
            self._send(victim, signal.SIGSTOP)
            self._stopped[victim] = now + self._random.uniform(0.1, 2 * TIMES.lease)
        time.sleep(self._random.uniform(0.1, 0.8))

    def resume(self) -> None:
        for pid in self._stopped:
            self._send(pid, signal.SIGCONT)

    def _victim(self) -> int:
        anyone = sorted(self._processes.alive - self._stopped.keys())
        if self._processes.holder in anyone and self._random.random() < 0.25:
            return self._processes.holder
        return self._random.choice(anyone) if anyone else 0

    def _send(self, pid: int, number: signal.Signals) -> None:
        self._processes.signal(pid, number)
        self.sent[number.name] += 1


@pytest.mark.timeout(240)
@pytest.mark.parametrize("seconds", [60.0, pytest.param(120.0, marks=pytest.mark.nightly)])
def test_history_of_twenty_processes(
    place: Place, tmp_path: Path, evidence: Counter[str], seconds: float,
) -> None:
    """L16: no two processes ever believed to hold the lock at once, tokens only grew, and somebody always got on."""
    with contending(place, tmp_path, COUNT, 6) as processes:
        processes.wait_for(lambda event: event["event"] == "effect")
        disturber = Disturber(processes, seed=16)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            disturber.disturb()
        disturber.resume()
        # With all of them running again, somebody gets on.
        processes.wait_for(lambda event: event["event"] == "effect", seconds=4 * TIMES.lease)
    # A holder that dies costs a lease, one that dies right after taking over another one; a busy machine some more.
    assert problems(processes.events, longest_gap=3 * TIMES.lease) == []
    seen = Counter(event["event"] for event in processes.events)
    held = len(beliefs(processes.events))
    assert held >= seconds / 4, (seen, disturber.sent)
    assert disturber.sent["SIGKILL"] >= seconds / 6
    assert disturber.sent["SIGSTOP"] >= seconds / 6
    evidence["lock holds"] += held
    evidence["lock history events"] += len(processes.events)
    evidence["faults injected"] += disturber.sent["SIGKILL"] + disturber.sent["SIGSTOP"]
    evidence["lost holds noticed"] += seen["lost"]
    evidence["schedules"] += 1
