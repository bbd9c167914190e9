"""Short questions to services of this machine: no proxy, no wait longer than five seconds, no error on no answer."""

from __future__ import annotations

import http.client
import json
import socket
import urllib.request
from typing import Any

# Addresses of this machine are never reached through a proxy that the environment names.
_direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def answers(url: str) -> bool:
    return get(url) is not None


def get_json(url: str) -> dict[str, Any]:
    body = get(url)
    found = json.loads(body) if body else {}
    return found if isinstance(found, dict) else {}


def get(url: str) -> bytes | None:
    """The body of a 200 answer, or None; never waits longer than 5 seconds."""
    try:
        with _direct.open(url, timeout=5) as reply:
            return bytes(reply.read())
    except (OSError, http.client.HTTPException):
        return None


def pings(host: str, port: int) -> bool:
    try:
        with socket.create_connection((host, port), timeout=2) as connection:
            connection.sendall(b"PING\r\n")
            return connection.recv(64).startswith(b"+PONG")
    except OSError:
        return False
