"""Bring up the cluster and build the images in the background, while tests that need neither run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from demo.errors import tail
from demo.paths import CLUSTER_LOGS, ROOT

COMMANDS = {"cluster": ["demo.cluster", "up"], "images": ["demo.images"]}
DEADLINE = 45 * 60
LOCK = CLUSTER_LOGS / "prepare.lock"
WORKER = os.environ.get("PYTEST_XDIST_WORKER", "")


class Preparation:
    """One process per thing; its output lies in ``build/logs/prepare-THING.log``."""

    def __init__(self) -> None:
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def begin(self, what: str) -> subprocess.Popen[bytes]:
        """Start it; a second call finds the process of the first."""
        if what not in self.processes:
            log = self.log(what)
            log.parent.mkdir(parents=True, exist_ok=True)
            with log.open("wb") as output:
                # A session of its own: after Ctrl-C we end it, and it ends what it started.
                # Workers of pytest-xdist each ask for it; one does it, and the others then find it done.
                command = ["flock", "--no-fork", LOCK, sys.executable, "-m", *COMMANDS[what]]
                self.processes[what] = subprocess.Popen(
                    command, env=os.environ | {"PYTHONPATH": str(ROOT / "docker")},
                    stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True,
                )
        return self.processes[what]

    def wait(self, what: str) -> None:
        if self.begin(what).wait(DEADLINE):
            log = self.log(what)
            pytest.fail(f"the {what} could not be prepared; {log} ends:\n{tail(log)}", pytrace=False)

    def end(self) -> None:
        for process in self.processes.values():
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
                process.wait(60)

    @staticmethod
    def log(what: str) -> Path:
        return CLUSTER_LOGS / f"prepare-{what}{WORKER and '-'}{WORKER}.log"
