"""The faulting proxy of the tests: each fault is what it says, and nothing else is changed."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
import urllib3

from tests.fakes.proxy import FaultyProxy


class Upstream(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    applied: list[tuple[str, str, bytes]]

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        pass

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.applied.append((self.command, self.path, body))
        text = json.dumps({"path": self.path, "agent": self.headers.get("X-Test", "")}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.send_header("X-Upstream", "yes")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(text)

    do_PUT = do_HEAD = do_POST  # noqa: N815 - names of the base class

    def do_GET(self) -> None:
        if "watch" not in self.path:
            return self.do_POST()
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for number in range(3):
            line = f"event {number}\n".encode()
            self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
        self.wfile.write(b"0\r\n\r\n")
        return None


@pytest.fixture
def applied() -> list[tuple[str, str, bytes]]:
    return []


@pytest.fixture
def proxy(applied: list[tuple[str, str, bytes]]) -> Iterator[FaultyProxy]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Bound", (Upstream,), {"applied": applied}))
    server.daemon_threads = False
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        with FaultyProxy(f"http://127.0.0.1:{server.server_address[1]}") as proxy:
            yield proxy
    finally:
        server.shutdown()
        thread.join(timeout=10)
        server.server_close()


@pytest.fixture
def http() -> Iterator[urllib3.PoolManager]:
    pool = urllib3.PoolManager(retries=False, timeout=10)
    yield pool
    pool.clear()


def test_what_matches_nothing_passes_whole(
    proxy: FaultyProxy, http: urllib3.PoolManager, applied: list[tuple[str, str, bytes]],
) -> None:
    """Method, path, query, headers and body reach the server, and its status, headers and body come back."""
    answer = http.request("PUT", f"{proxy.url}/a/b?c=d", body=b"text", headers={"X-Test": "me"})
    assert (answer.status, answer.json()) == (200, {"path": "/a/b?c=d", "agent": "me"})
    assert answer.headers["X-Upstream"] == "yes"
    assert applied == [("PUT", "/a/b?c=d", b"text")]
    assert http.request("HEAD", f"{proxy.url}/a").headers["X-Upstream"] == "yes"
    assert proxy.requests == [("PUT", "/a/b?c=d"), ("HEAD", "/a")]


def test_cut_never_reaches_the_server(
    proxy: FaultyProxy, http: urllib3.PoolManager, applied: list[tuple[str, str, bytes]],
) -> None:
    """A cut request fails and is not applied; the next one passes."""
    rule = proxy.fail("PUT", "/a$", cut=True)
    with pytest.raises(urllib3.exceptions.ProtocolError):
        http.request("PUT", f"{proxy.url}/a")
    assert applied == []
    assert http.request("PUT", f"{proxy.url}/a").status == 200
    assert rule.hits == 1


def test_dropped_reply_was_applied(
    proxy: FaultyProxy, http: urllib3.PoolManager, applied: list[tuple[str, str, bytes]],
) -> None:
    """With drop_reply the server did the work and the client hears nothing, or the injected status."""
    proxy.fail("PUT", "/a", drop_reply=True)
    proxy.fail("PUT", "/a", drop_reply=True, status=503, body="sorry")
    with pytest.raises(urllib3.exceptions.ProtocolError):
        http.request("PUT", f"{proxy.url}/a")
    answer = http.request("PUT", f"{proxy.url}/a")
    assert (answer.status, answer.data) == (503, b"sorry")
    assert len(applied) == 2


def test_injected_status_has_headers_and_body(
    proxy: FaultyProxy, http: urllib3.PoolManager, applied: list[tuple[str, str, bytes]],
) -> None:
    """A status is answered with its headers and body, after as many requests as were to be skipped."""
    proxy.fail("GET", "/a", skip=1, status=429, headers={"Retry-After": "3"}, body={"message": "slow down"})
    assert http.request("GET", f"{proxy.url}/a").status == 200
    answer = http.request("GET", f"{proxy.url}/a")
    assert (answer.status, answer.headers["Retry-After"], answer.json()) == (429, "3", {"message": "slow down"})
    assert len(applied) == 1


def test_hanging_request_ends_with_the_proxy(proxy: FaultyProxy, http: urllib3.PoolManager) -> None:
    """A request that hangs stays silent for as long as the client waits."""
    rule = proxy.fail("GET", "/a", hang=True)
    with pytest.raises(urllib3.exceptions.ReadTimeoutError):
        http.request("GET", f"{proxy.url}/a", timeout=0.3)
    assert rule.arrived.is_set()
    assert not rule.applied.is_set()


def test_delays_wait_for_seconds_or_an_event(
    proxy: FaultyProxy, http: urllib3.PoolManager, applied: list[tuple[str, str, bytes]],
) -> None:
    """A delay holds a request back before the server sees it; a delayed reply was applied long before."""
    gate = threading.Event()
    proxy.fail("GET", "/late", delay=0.3)
    rule = proxy.fail("PUT", "/gate", delay_reply=gate)
    began = time.monotonic()
    assert http.request("GET", f"{proxy.url}/late").status == 200
    assert time.monotonic() - began >= 0.3
    caller = threading.Thread(target=http.request, args=("PUT", f"{proxy.url}/gate"))
    caller.start()
    assert rule.applied.wait(timeout=10)
    assert applied[-1][1] == "/gate"
    assert caller.is_alive()
    gate.set()
    caller.join(timeout=10)
    assert not caller.is_alive()


def test_streams_are_passed_on_cut_or_gone(proxy: FaultyProxy, http: urllib3.PoolManager) -> None:
    """A stream passes as it comes; it can be cut after some lines, or answered with 410 Gone as the API server does."""
    assert http.request("GET", f"{proxy.url}/watch").data == b"event 0\nevent 1\nevent 2\n"
    proxy.fail("GET", "/watch", cut_stream_after=2)
    answer = http.request("GET", f"{proxy.url}/watch", preload_content=False)
    got = []
    with pytest.raises(urllib3.exceptions.ProtocolError):
        got.extend(answer.stream())
    proxy.fail("GET", "/watch", gone=True)
    assert http.request("GET", f"{proxy.url}/watch").json()["object"]["code"] == 410


def test_rules_can_last_and_be_cancelled(proxy: FaultyProxy, http: urllib3.PoolManager) -> None:
    """A rule without a count holds until it is cancelled."""
    down = proxy.fail(".*", ".*", times=None, status=500)
    assert [http.request("GET", f"{proxy.url}/{n}").status for n in range(3)] == [500, 500, 500]
    down.cancel()
    assert http.request("GET", f"{proxy.url}/a").status == 200
    assert proxy.count("GET", "/[0-9]") == 3
