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

import json
import re
import socket
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import urllib3

_HOP = frozenset({"connection", "keep-alive", "transfer-encoding", "te", "trailer", "upgrade", "host"})
_GONE = {"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}}


@dataclass(eq=False)
class Rule:
    """What happens to matching requests; the parameters of :meth:`FaultyProxy.fail`. ``hits`` counts them."""

    method: str
    path: str
    times: int | None = 1
    skip: int = 0
    delay: float | threading.Event = 0.0
    cut: bool = False
    hang: bool = False
    drop_reply: bool = False
    delay_reply: float | threading.Event = 0.0
    status: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    body: str | bytes | dict[str, Any] = ""
    cut_stream_after: int | None = None
    gone: bool = False
    hits: int = 0
    #: Set when the first matching request arrived (before any delay), and when one was answered by the server.
    arrived: threading.Event = field(default_factory=threading.Event)
    applied: threading.Event = field(default_factory=threading.Event)

    def cancel(self) -> None:
        self.times = 0

    def takes(self, method: str, path: str) -> bool:
        if self.times == 0 or not re.fullmatch(self.method, method) or not re.search(self.path, path):
            return False
        if self.skip:
            self.skip -= 1
            return False
        self.times = None if self.times is None else self.times - 1
        self.hits += 1
        return True


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
        self._server = _Server(("127.0.0.1", 0), _Handler)
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


class _Server(ThreadingHTTPServer):
    daemon_threads = False
    request_queue_size = 128
    proxy: FaultyProxy

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hung up is what these tests are about; anything else must be seen."""
        import sys

        if not isinstance(sys.exc_info()[1], OSError | urllib3.exceptions.HTTPError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class names it
        pass

    def setup(self) -> None:
        super().setup()
        self.server.proxy.track(self.connection, True)

    def finish(self) -> None:
        self.server.proxy.track(self.connection, False)
        super().finish()

    def _handle(self) -> None:
        proxy, body = self.server.proxy, self._body()
        rule = proxy.matched(self.command, self.path) or Rule("", "")
        proxy.pause(rule.delay)
        if rule.hang:
            proxy.closing.wait(120)
        if rule.cut or rule.hang:
            return self._cut()
        if rule.gone:
            return self._answer(200, {"Content-Type": "application/json"}, json.dumps(_GONE).encode() + b"\n")
        if rule.status and not rule.drop_reply:
            return self._answer(rule.status, rule.headers, _bytes(rule.body))
        headers = {name: value for name, value in self.headers.items() if name.lower() not in _HOP}
        answer = proxy.forward(self.command, self.path, headers, body)
        upstream = getattr(answer.connection, "sock", None)
        if upstream:
            proxy.track(upstream, True)  # a watch may stay silent for longer than the proxy lives
        try:
            self._reply(rule, answer)
        finally:
            proxy.track(upstream, False)
            answer.release_conn()
            answer.close()
        return None

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = _handle  # noqa: N815 - names of the base class

    def _reply(self, rule: Rule, answer: Any) -> None:
        held = answer.read(decode_content=False) if rule.drop_reply or rule.delay_reply else None
        rule.applied.set()
        self.server.proxy.pause(rule.delay_reply)
        if rule.drop_reply:
            return self._answer(rule.status, rule.headers, _bytes(rule.body)) if rule.status else self._cut()
        headers = {name: value for name, value in answer.headers.items() if name.lower() not in _HOP}
        if held is None and (answer.headers.get("Content-Length") or self.command == "HEAD"):
            held = answer.read(decode_content=False)
        if held is not None:
            return self._answer(answer.status, headers, held)
        return self._stream(rule, answer, headers)

    def _stream(self, rule: Rule, answer: Any, headers: Mapping[str, str]) -> None:
        self._head(answer.status, {**headers, "Transfer-Encoding": "chunked"})
        left = rule.cut_stream_after
        if left == 0:
            return self._cut()
        for chunk in answer.stream(decode_content=False):
            for line in chunk.splitlines(keepends=True):
                self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
                left = left - line.endswith(b"\n") if left is not None else None
                if left == 0:
                    return self._cut()
        self.wfile.write(b"0\r\n\r\n")
        return None

    def _answer(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        length = {"Content-Length": headers.get("Content-Length", str(len(body))) if self.command == "HEAD"
                  else str(len(body))}
        rest = {name: value for name, value in headers.items() if name.lower() != "content-length"}
        self._head(status, {**rest, **length})
        if self.command != "HEAD":
            self.wfile.write(body)

    def _head(self, status: int, headers: Mapping[str, str]) -> None:
        self.send_response_only(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def _cut(self) -> None:
        """Close without an answer, or without the last chunk that would make it a whole one."""
        self.close_connection = True

    def _body(self) -> bytes | None:
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            parts = []
            while size := int(self.rfile.readline().split(b";")[0], 16):
                parts.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            return b"".join(parts)
        length = int(self.headers.get("Content-Length") or 0)
        return self.rfile.read(length) if length else None


def _bytes(body: str | bytes | dict[str, Any]) -> bytes:
    if isinstance(body, bytes):
        return body
    return (json.dumps(body) if isinstance(body, dict) else body).encode()


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
