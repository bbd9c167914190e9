from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import Connection

from airflow_provider_ragops.exceptions import ConfigurationError, UnreachableError
from airflow_provider_ragops.hooks import redis as hook
from airflow_provider_ragops.hooks.redis import client_settings, redis_client, without_customers


def connection(extra: dict[str, Any] | None = None, **fields: Any) -> Connection:
    return Connection(conn_id="r", conn_type="redis", extra=json.dumps(extra or {}), **fields)


def settings(extra: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    return client_settings(connection(extra, **fields))[1]


def test_every_call_has_a_deadline_and_undecodable_keys_are_kept() -> None:
    """The client never waits without end, and a key that is no text comes back as the bytes that it was."""
    found = settings()
    assert (found["host"], found["port"], found["db"]) == ("localhost", 6379, 0)
    assert (found["socket_timeout"], found["socket_connect_timeout"]) == (10.0, 5.0)
    assert (found["decode_responses"], found["encoding_errors"]) == (True, "surrogateescape")
    assert "ssl" not in found


@pytest.mark.parametrize(
    ("extra", "schema", "database"),
    [({}, None, 0), ({}, "3", 3), ({"db": 2}, None, 2), ({"db": "2"}, "2", 2), ({"db": 0}, None, 0)],
)
def test_the_database_is_the_extras_or_the_schema(extra: dict[str, Any], schema: str | None, database: int) -> None:
    """Airflow's own hook for Redis reads ``db`` from the extra: a connection that serves both means one database."""
    assert settings(extra, schema=schema)["db"] == database


def test_a_cluster_is_asked_for_by_name() -> None:
    """``cluster`` opens a client of the cluster, which takes no database."""
    is_cluster, found = client_settings(connection({"cluster": True}, host="h", port=7000))
    assert is_cluster
    assert "db" not in found
    assert not client_settings(connection({"cluster": "false"}))[0]


def test_tls_is_taken_by_name(tmp_path: Path) -> None:
    """The settings of TLS that are known are passed on, and nothing else of the extra."""
    ca = tmp_path / "ca.pem"
    ca.touch()
    found = settings({"ssl": "true", "ssl_ca_certs": str(ca), "socket_timeout": None, "host": "elsewhere"})
    tls = {name: value for name, value in found.items() if name.startswith("ssl")}
    assert tls == {"ssl": True, "ssl_ca_certs": str(ca), "ssl_cert_reqs": "required", "ssl_check_hostname": True}
    assert (found["host"], found["socket_timeout"]) == ("localhost", 10.0)
    assert settings({"ssl": True, "ssl_cert_reqs": "none"})["ssl_check_hostname"] is False


@pytest.mark.parametrize(
    ("extra", "fields", "message"),
    [
        ({"cluster": "yes"}, {}, "expected cluster to be true or false; saw 'yes'"),
        ({"ssl": 2}, {}, "expected ssl to be true or false; saw 2"),
        ({"ssl": True, "ssl_ca_cert": "/ca"}, {}, "expected settings for TLS among ssl_ca_certs, .*; saw ssl_ca_cert"),
        ({"ssl_ca_certs": "/ca"}, {}, 'expected "ssl": true beside settings for TLS; saw ssl_ca_certs without it'),
        ({"ssl": True, "ssl_ca_certs": "/no/ca"}, {}, "expected ssl_ca_certs to name a file .*; saw '/no/ca'"),
        ({"ssl": True, "ssl_cert_reqs": "maybe"}, {}, "expected ssl_cert_reqs to be required, .*; saw 'maybe'"),
        ({"cluster": True}, {"schema": "1"}, "expected database 0: a cluster has no other; saw 1"),
        ({"db": 1}, {"schema": "2"}, "expected one number as database; saw 1, 2"),
        ({}, {"schema": "cache"}, "expected one number as database; saw cache"),
    ],
)
def test_an_impossible_setting_is_refused(extra: dict[str, Any], fields: dict[str, Any], message: str) -> None:
    """What is unknown, contradictory or would silently go without TLS is refused before anything is sent."""
    with pytest.raises(ConfigurationError, match=f"connection 'r': {message}"):
        client_settings(connection(extra, **fields))


def test_a_pipelines_error_is_shown_without_customers() -> None:
    """C11: which command failed, and why, is kept; whose keys they were is no matter for a log."""
    text = ("Command # 2 (UNLINK p:rag_decompose:v1:customer_id=jane doe:q1 p:rag_decompose:v1:customer_id=x) of "
            "pipeline caused error: NOPERM no permission")
    assert without_customers(text) == (
        "Command # 2 (UNLINK p:rag_decompose:v1:customer_id=…) of pipeline caused error: NOPERM no permission"
    )
    assert without_customers("customer_id=jane\ndoe") == "customer_id=…"
    assert without_customers("Connection refused") == "Connection refused"


@pytest.fixture
def silent_port() -> Iterator[int]:
    """A port where connections are accepted and nobody answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


@pytest.mark.parametrize("cluster", [False, True])
def test_a_silent_server_is_unreachable_in_time(
    silent_port: int, monkeypatch: pytest.MonkeyPatch, *, cluster: bool,
) -> None:
    """A server that accepts and never answers ends with UnreachableError after a bounded number of timeouts."""
    monkeypatch.setattr(hook, "TIMEOUT", 0.2)
    extra = {"cluster": cluster}
    found = {"conn_type": "redis", "host": "127.0.0.1", "port": silent_port, "password": "hunter2", "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_R", json.dumps(found))
    began = time.monotonic()
    with pytest.raises(UnreachableError) as error, redis_client("r") as client:
        client.ping()
    assert time.monotonic() - began < 5
    assert f"Redis at 127.0.0.1:{silent_port} (connection 'r')" in str(error.value)
    assert "hunter2" not in str(error.value)
