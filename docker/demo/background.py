"""Services as detached processes, each with a pid file, a log, a health check and a deadline."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from demo import proc
from demo.errors import DemoError, tail


@dataclass(frozen=True)
class Service:
    """What to run and how to know that it answers. ``deadline`` is in seconds from the start."""

    name: str
    command: tuple[str, ...]
    address: str
    ready: Callable[[], bool]
    env: Mapping[str, str] = field(default_factory=dict)
    deadline: float = 90.0

    @property
    def settings(self) -> str:
        text = json.dumps([self.command, sorted(self.env.items())])
        return hashlib.sha256(text.encode()).hexdigest()


class Background:
    """The services of one folder: ``run/NAME.json`` says which process is ours, ``logs/NAME.log`` is its output."""

    def __init__(self, folder: Path) -> None:
        self.run = folder / "run"
        self.logs = folder / "logs"
        self._children: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, service: Service) -> bool:
        """Start it unless it is up with the same settings, and wait until it answers; True when it was started.

        :raises DemoError: when its address is taken, it ended, or it did not answer in time; it is ended then.
        """
        record = self._record(service.name)
        if record and record["settings"] == service.settings and service.ready():
            return False
        self.stop(service.name)
        if service.ready():
            raise DemoError(
                f"{service.name}: expected {service.address} to be free; another process answers there. "
                f"Stop it, or set RAGOPS_{service.name.upper()}_PORT to a free port."
            )
        try:
            self._wait(service, self._launch(service))
        except BaseException:
            self.stop(service.name)
            raise
        return True

    def stop(self, name: str) -> bool:
        """End it and all its descendants; True when it was running."""
        record = self._record(name)
        if record:
            proc.end(int(str(record["pid"])), int(str(record["started"])))
            if child := self._children.pop(name, None):
                child.wait(10)
        (self.run / f"{name}.json").unlink(missing_ok=True)
        return record is not None

    def stop_all(self) -> list[str]:
        names = sorted(file.stem for file in self.run.glob("*.json"))
        return [name for name in names if self.stop(name)]

    def log(self, name: str) -> Path:
        return self.logs / f"{name}.log"

    def _launch(self, service: Service) -> subprocess.Popen[bytes]:
        self.run.mkdir(parents=True, exist_ok=True)
        self.logs.mkdir(parents=True, exist_ok=True)
        env = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"} | dict(service.env)
        # `airflow standalone` looks for its own program on the path.
        env["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), env.get("PATH", os.defpath)])
        with self.log(service.name).open("wb") as log:
            # A session of its own: Ctrl-C in the terminal must reach the demo alone, which then ends its services.
            process = subprocess.Popen(
                service.command, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        self._children[service.name] = process
        started = proc.stat(process.pid)
        record = {
            "pid": process.pid, "started": started.started if started else 0,
            "boot": proc.boot_id(), "settings": service.settings,
        }
        (self.run / f"{service.name}.json").write_text(json.dumps(record))
        return process

    def _wait(self, service: Service, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + service.deadline
        log = self.log(service.name)
        while not service.ready():
            code = process.poll()
            late = time.monotonic() > deadline
            if code is not None or late:
                seen = f"no answer in {service.deadline:.0f} s" if code is None else f"it ended with code {code}"
                raise DemoError(
                    f"{service.name}: expected an answer at {service.address}; {seen}. Log {log} ends:\n{tail(log)}"
                )
            time.sleep(0.3)

    def _record(self, name: str) -> dict[str, object] | None:
        """The record, if its process is from this boot and any of its family still runs."""
        try:
            record: dict[str, object] = json.loads((self.run / f"{name}.json").read_text())
        except FileNotFoundError:
            return None
        if record["boot"] != proc.boot_id():
            return None
        return record if proc.family(int(str(record["pid"])), int(str(record["started"]))) else None
