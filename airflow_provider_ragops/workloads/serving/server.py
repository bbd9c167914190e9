"""uvicorn, with an end that keep-alive clients do not notice.

uvicorn's own end closes idle connections at once, so a request on its way then is reset. Here, after SIGTERM, the
process goes on answering for ``linger`` seconds with ``Connection: close``, so that clients which keep connections
leave by themselves; then uvicorn ends: no new connections, requests in flight are finished within ``drain`` seconds.

SIGUSR1 begins the same (not ready, ``Connection: close``) without an end: for a preStop hook, which runs while
endpoints still forget the pod, before SIGTERM.
"""

from __future__ import annotations

import logging
import signal
import time
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING

from uvicorn import Config, Server

if TYPE_CHECKING:
    from fastapi import FastAPI

    from airflow_provider_ragops.workloads.serving.state import ServingState

log = logging.getLogger(__name__)

# Idle connections are kept longer than clients and load balancers usually keep theirs: the side that closes an idle
# connection should be the one that sends.
KEEP_ALIVE_SECONDS = 75


class DrainingServer(Server):
    """:param state: its ``draining`` is set when the process is told to stop."""

    def __init__(
        self, config: Config, state: ServingState, linger: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(config)
        self._state, self._linger, self._clock = state, linger, clock
        self._told: float | None = None
        self._announced = False

    def drain(self, *_: object) -> None:
        """Nothing but a flag: a handler that logs may interrupt a line that is being written."""
        self._state.draining = True

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self._told is None and sig == signal.SIGTERM:
            self._told = self._clock()
            self.drain()
            return
        super().handle_exit(sig, frame)  # a second signal, or Ctrl+C: no lingering

    async def on_tick(self, counter: int) -> bool:
        if self._state.draining and not self._announced:
            self._announced = True
            log.info("told to stop", extra={"linger_seconds": self._linger})
        over = self._told is not None and self._clock() - self._told >= self._linger
        return await super().on_tick(counter) or over


def serve(app: FastAPI, port: int, drain_seconds: int, linger_seconds: float) -> None:
    """Answer on ``port`` until SIGTERM, linger, and finish the requests in flight, ``drain_seconds`` in all."""
    config = Config(
        app,
        host="0.0.0.0",  # noqa: S104  a pod's own network namespace
        port=port,
        log_config=None,
        access_log=False,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=max(1, int(drain_seconds - linger_seconds)),
    )
    server = DrainingServer(config, app.state.serving, linger_seconds)
    signal.signal(signal.SIGUSR1, server.drain)
    server.run()
