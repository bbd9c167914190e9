"""A closed-loop load generator of its own process: raw sockets and epoll, so that the client is not what is measured.

``python -m tests.benchmarks.load PORT CONNECTIONS SECONDS < body``: prints latencies' percentiles and the rate as JSON.
"""

from __future__ import annotations

import json
import select
import socket
import sys
import time
from dataclasses import dataclass


@dataclass
class Connection:
    sock: socket.socket
    began: float = 0.0
    seen: bytes = b""

    def send(self, request: bytes) -> None:
        self.began, self.seen = time.perf_counter(), b""
        self.sock.sendall(request)

    def complete(self) -> bool:
        """Read what is there; True once the whole answer is, which must be a 200."""
        part = self.sock.recv(65536)
        if not part:
            raise ConnectionError(f"closed by the server after {self.seen[:200]!r}")
        self.seen += part
        head, found, body = self.seen.partition(b"\r\n\r\n")
        if not found:
            return False
        if not head.startswith(b"HTTP/1.1 200"):
            raise ValueError(f"answered {self.seen[:300]!r}")
        length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
        return len(body) >= int(length.partition(b":")[2])


def request_of(body: bytes, path: str = "/invocations") -> bytes:
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
    return head.encode() + b"\r\n\r\n" + body


def measure(port: int, connections: int, seconds: float, body: bytes) -> dict[str, float]:
    request, poll, seen = request_of(body), select.epoll(), {}
    for _ in range(connections):
        made = Connection(socket.create_connection(("127.0.0.1", port), timeout=10))
        made.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        poll.register(made.sock.fileno(), select.EPOLLIN)
        seen[made.sock.fileno()] = made
    latencies: list[float] = []
    began = time.perf_counter()
    for each in seen.values():
        each.send(request)
    while (now := time.perf_counter()) - began < seconds:
        for number, _ in poll.poll(5.0):
            if (each := seen[number]).complete():
                latencies.append(time.perf_counter() - each.began)
                each.send(request)
    latencies.sort()
    at = lambda share: round(1000 * latencies[int(share * (len(latencies) - 1))], 4)  # noqa: E731
    return {"rps": round(len(latencies) / (now - began), 1), "p50_ms": at(0.5), "p99_ms": at(0.99)}


if __name__ == "__main__":
    print(json.dumps(measure(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), sys.stdin.buffer.read())))
