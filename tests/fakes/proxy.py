"""A proxy on loopback that breaks HTTP calls on purpose, in front of a real API server or any plain HTTP server.

.. code-block:: python

    with FaultyProxy(kubeconfig) as proxy:                # or FaultyProxy("http://127.0.0.1:5000") for MLflow
        kube = Kube(proxy.client())                       # plain HTTP, no credentials: the proxy has them
        proxy.fail("PUT", r"/configmaps/", drop_reply=True)            # applied, but the reply is lost
        proxy.fail("GET", r"/pods", times=3, status=429, headers={"Retry-After": "1"})
        down = proxy.fail(".*", ".*", times=None, cut=True)            # unreachable until down.cancel()

What is not matched passes through, streams (a watch) included. The proxy itself sends nothing twice.
"""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import urllib3

from tests.fakes.proxy_handler import Handler, Rule, Server


class FaultyProxy:
    """:param upstream: a kubeconfig's path, or the base URL of a plain HTTP server.

    ``url`` is where it listens; ``requests`` lists (method, path with query) of all that came in, in order.
    """

    def __init__(self, upstream: str | Path) -> None:
        self._pool, self._base, self._credentials = _upstream(str(upstream))
        self._rules: list[Rule] = []
        self._mutex = threading.Lock()
        self._open: set[socket.socket] = set()
        self._clients: list[Any] = []
        self.closing = threading.Event()
        self.requests: list[tuple[str, str]] = []
        self._server = Server(("127.0.0.1", 0), Handler)
        self._server.proxy = self
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), name="faulty-proxy")

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def client(self) -> Any:
        """A ``kubernetes.client.ApiClient`` that talks to the API server through this proxy; closed with it."""
        from kubernetes import client

        made = client.ApiClient(client.Configuration(host=self.url))
        self._clients.append(made)
        return made

    def fail(self, method: str, path: str, **fault: Any) -> Rule:
        """Break requests whose method matches (whole) and whose path with query contains a match. First rule wins.

        :param times: how many of them; None for all until ``rule.cancel()``. ``skip`` lets that many pass before.
        :param delay: seconds to wait before it is forwarded, or an event to wait for; goes on normally after it.
        :param cut: close the connection without forwarding.
        :param hang: keep the connection open and silent, without forwarding, until the proxy closes.
        :param drop_reply: forward it, take the server's answer, then close the connection (or answer ``status``).
        :param delay_reply: forward it at once, hold the answer back: seconds or an event.
        :param status: answer this, without forwarding, with ``headers`` and ``body`` (dict: JSON; text: as it is).
        :param cut_stream_after: pass a streamed answer on for that many lines, then close.
        :param gone: answer a watch with the event 410 Gone.
        """
        rule = Rule(method, path, **fault)
        with self._mutex:
            self._rules.append(rule)
        return rule

    def clear(self) -> None:
        with self._mutex:
            self._rules.clear()

    def count(self, method: str, path: str) -> int:
        """How many requests so far matched."""
        return sum(bool(re.fullmatch(method, m) and re.search(path, p)) for m, p in list(self.requests))

    def __enter__(self) -> FaultyProxy:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.closing.set()
        for rule in self._rules:
            for gate in (rule.delay, rule.delay_reply):
                if isinstance(gate, threading.Event):
                    gate.set()
        self._server.shutdown()
        self._thread.join(timeout=10)
        for client in self._clients:
            client.rest_client.pool_manager.clear()
            client.close()
        with self._mutex:
            for connection in self._open:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
        self._server.server_close()  # joins the handlers
        self._pool.clear()

    def matched(self, method: str, path: str) -> Rule | None:
        with self._mutex:
            self.requests.append((method, path))
            rule = next((rule for rule in self._rules if rule.takes(method, path)), None)
        if rule:
            rule.arrived.set()
        return rule

    def track(self, connection: socket.socket | None, opened: bool) -> None:
        with self._mutex:
            (self._open.add if opened else self._open.discard)(connection)

    def forward(self, method: str, path: str, headers: Mapping[str, str], body: bytes | None) -> Any:
        return self._pool.urlopen(
            method, self._base + path, body=body, headers={**headers, **self._credentials}, preload_content=False,
            decode_content=False, redirect=False, retries=False, timeout=urllib3.Timeout(connect=10, read=120),
        )

    def pause(self, gate: float | threading.Event) -> None:
        """Wait for the event or the seconds, at most until the proxy closes."""
        if isinstance(gate, threading.Event):
            gate.wait(timeout=120)
        elif gate:
            self.closing.wait(gate)


def _upstream(where: str) -> tuple[Any, str, dict[str, str]]:
    """A connection pool, the base URL, and the headers that carry the credentials."""
    if where.startswith("http://"):
        # A server may close an idle connection just as it is used again: never reuse one.
        return urllib3.PoolManager(), where.rstrip("/"), {"Connection": "close"}
    from kubernetes import config

    client = config.new_client_from_config(where)
    token = client.configuration.get_api_key_with_prefix("authorization") or \
        client.configuration.get_api_key_with_prefix("BearerToken")
    credentials = {"Authorization": token} if token else {}
    return client.rest_client.pool_manager, client.configuration.host.rstrip("/"), credentials
