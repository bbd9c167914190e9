"""A Valkey server of a test's own, which it may configure, freeze, kill and bring back."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import redis
from demo import services
from demo.background import Background, Service

HOST = "127.0.0.1"


@dataclass(frozen=True)
class OwnRedis:
    background: Background
    service: Service

    @property
    def url(self) -> str:
        return self.service.address

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2].partition("/")[0])

    def client(self, **options: object) -> redis.Redis:
        """Without retries: a test sees what happens."""
        return redis.Redis(HOST, self.port, socket_timeout=10, retry=None, **options)  # type: ignore[arg-type]

    @property
    def pid(self) -> int:
        with self.client() as client:
            return int(client.info("server")["process_id"])

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        self.background._children.pop(self.service.name).wait(10)  # what is dead already, stop() does not wait for

    def start(self) -> None:
        """On the same port; empty."""
        self.background.start(self.service)

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Its process is stopped meanwhile: connections are accepted, and nobody answers."""
        pid = self.pid
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)


@pytest.fixture
def own_redis(tmp_path: Path) -> Iterator[Callable[..., OwnRedis]]:
    """Starts servers with further options of ``valkey-server``; ends them after the test."""
    background = Background(tmp_path / "own")

    def begin(*options: str) -> OwnRedis:
        number = len(list(background.logs.glob("*"))) if background.logs.exists() else 0
        service = services.redis(tmp_path / f"own-{number}", HOST, services.free_port(HOST))
        made = OwnRedis(background, replace(service, name=f"own-{number}", command=(*service.command, *options)))
        made.start()
        return made

    yield begin
    background.stop_all()
