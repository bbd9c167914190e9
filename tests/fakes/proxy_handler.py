"""The faulting proxy's other half: what happens to one request. Its interface and its use are in ``proxy.py``."""

from __future__ import annotations

import json
import re
import socket
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Protocol

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


class Proxy(Protocol):
    closing: threading.Event

    def matched(self, method: str, path: str) -> Rule | None: ...

    def track(self, connection: socket.socket | None, opened: bool) -> None: ...

    def forward(self, method: str, path: str, headers: Mapping[str, str], body: bytes | None) -> Any: ...

    def pause(self, gate: float | threading.Event) -> None: ...


class Server(ThreadingHTTPServer):
    daemon_threads = False
    request_queue_size = 128
    proxy: Proxy

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hung up is what these tests are about; anything else must be seen."""
        if not isinstance(sys.exc_info()[1], OSError | urllib3.exceptions.HTTPError):
            super().handle_error(request, client_address)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: Server

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
