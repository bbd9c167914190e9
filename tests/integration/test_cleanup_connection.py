"""Clean-up through Airflow's connection: a single server, a cluster, TLS, and users who may not do everything."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import redis
from redis.crc import key_slot

from airflow_provider_ragops.cache.cleanup import CleanupReport, clean_stale, clean_version, clean_versions
from airflow_provider_ragops.cache.inventory import leftovers, unmarked
from airflow_provider_ragops.cache.keyspace import key_space_fault
from airflow_provider_ragops.contract import marker_key
from airflow_provider_ragops.exceptions import UnreachableError
from airflow_provider_ragops.hooks.redis import redis_client
from tests.key_space import connect, fill, names
from tests.server import Server
from tests.tls import certificate, tls_in_front_of
from tests.valkey_cluster import SLOTS, ValkeyCluster

Connect = Callable[..., None]


@pytest.fixture
def connection(monkeypatch: pytest.MonkeyPatch) -> Connect:
    """Sets Airflow's connection ``r``."""
    def set_it(host: str, port: int, extra: dict[str, Any] | None = None, **fields: Any) -> None:
        value = {"conn_type": "redis", "host": host, "port": port, "extra": extra or {}, **fields}
        monkeypatch.setenv("AIRFLOW_CONN_R", json.dumps(value))

    return set_it


@pytest.fixture
def client(redis_server: Server) -> redis.Redis:
    """A database of this module's own, empty."""
    client = connect(redis_server.url, 10)
    client.flushdb()
    return client


def address(server: Server) -> tuple[str, int]:
    parts = urlsplit(server.url)
    assert parts.hostname
    assert parts.port
    return parts.hostname, parts.port


def test_a_single_server(client: redis.Redis, redis_server: Server, connection: Connect) -> None:
    """The connection's database is cleaned, keys that are no text included."""
    doomed = fill(client, "p:", "1")
    client.set(b"p:rag_store:v1:\xff\xfe", "x")
    connection(*address(redis_server), {"db": 10})
    with redis_client("r") as mine:
        assert clean_version(mine, "p:", "M", "1", {}) == CleanupReport({"1": len(doomed) + 1})
    assert names(client) == set()


def test_a_cluster(redis_cluster: ValkeyCluster, cluster_client: redis.RedisCluster, connection: Connect) -> None:
    """C10: with ``{"cluster": true}`` every primary is cleaned, keys that are no text included."""
    doomed = fill(cluster_client, "p:", "1", customers=map(str, range(100)))
    cluster_client.set(b"p:rag_store:v1:\xff\xfe", "x")
    connection("127.0.0.1", redis_cluster.ports[1], {"cluster": True})
    with redis_client("r") as mine:
        assert clean_version(mine, "p:", "M", "1", {}) == CleanupReport({"1": len(doomed) + 1})
    assert names(cluster_client) == set()


def test_a_cluster_that_is_none_and_a_server_that_is_one(
    redis_server: Server, redis_cluster: ValkeyCluster, connection: Connect,
) -> None:
    """The wrong kind of client is refused with the setting to change, not half cleaned."""
    connection(*address(redis_server), {"cluster": True})
    with pytest.raises(UnreachableError, match='remove "cluster" from the connection'), redis_client("r") as mine:
        mine.ping()
    connection("127.0.0.1", redis_cluster.ports[0])
    elsewhere = next(key for key in map(str, range(100)) if key_slot(key.encode()) > SLOTS // 3)
    with pytest.raises(UnreachableError, match=r'set \{"cluster": true\}'), redis_client("r") as mine:
        mine.exists(elsewhere)


def test_a_user_without_rights_removes_nothing(
    client: redis.Redis, redis_server: Server, connection: Connect,
) -> None:
    """C11: a refused UNLINK ends the clean-up with what the user may not do; nothing is reported as removed."""
    before = fill(client, "p:", "1")
    client.acl_setuser("reader", enabled=True, passwords=["+secret-7"], keys=["*"],
                       commands=["+scan", "+hgetall", "+select", "+ping", "+client"])
    connection(*address(redis_server), {"db": 10}, login="reader", password="secret-7")
    try:
        with pytest.raises(UnreachableError) as refused, redis_client("r") as mine:
            clean_version(mine, "p:", "M", "1", {})
    finally:
        client.acl_deluser("reader")
    assert "NoPermissionError" in str(refused.value)
    assert "what the user may do: SCAN, HGET, HGETALL, UNLINK, EVAL" in str(refused.value)
    assert "secret-7" not in str(refused.value)
    assert names(client) == before


RIGHTS = {"enabled": True, "passwords": ["+secret-7"], "keys": ["p:rag_*"]}
COMMANDS = ["+scan", "+hget", "+hgetall", "+unlink", "+eval"]


def every_path(client: redis.Redis | redis.RedisCluster) -> None:
    keep = {"2": "champion alias"}
    assert key_space_fault(client, "p:", "M", "1", "2") == ""
    assert leftovers(client, "p:", "M", keep) == {"1": 7}
    assert unmarked(client, "p:") == {}
    assert clean_versions(client, "p:", "M", keep) == CleanupReport({"1": 7})
    assert clean_stale(client, "p:", "M", {"2": "new"}) == CleanupReport({"2": 7})


def test_the_documented_rights_are_enough(client: redis.Redis, redis_server: Server, connection: Connect) -> None:
    """A user that may do what docs/redis.md names, on our keys only, can do all of it on a single server."""
    for version in ("1", "2"):
        fill(client, "p:", version)
    client.acl_setuser("cleaner", **RIGHTS, commands=[*COMMANDS, "+select"])
    connection(*address(redis_server), {"db": 10}, login="cleaner", password="secret-7")
    try:
        with redis_client("r") as mine:
            every_path(mine)
    finally:
        client.acl_deluser("cleaner")


def test_the_documented_rights_are_enough_on_a_cluster(
    redis_cluster: ValkeyCluster, cluster_client: redis.RedisCluster, connection: Connect,
) -> None:
    """C10: the same on a cluster, where the client also reads the map of slots and the table of commands."""
    for version in ("1", "2"):
        fill(cluster_client, "p:", version)
    for node in redis_cluster.nodes():
        node.acl_setuser("cleaner", **RIGHTS, commands=[*COMMANDS, "+cluster", "+command"])
    connection("127.0.0.1", redis_cluster.ports[0], {"cluster": True}, login="cleaner", password="secret-7")
    try:
        with redis_client("r") as mine:
            every_path(mine)
    finally:
        for node in redis_cluster.nodes():
            node.acl_deluser("cleaner")


def test_one_refused_key_of_a_pipeline_is_surfaced(
    redis_cluster: ValkeyCluster, cluster_client: redis.RedisCluster, connection: Connect,
) -> None:
    """C11: one command of a cluster's pipeline fails: the error shows version and reason, and no customer's name."""
    fill(cluster_client, "p:", "1", customers=["a1", "a2", "jane.doe"])
    rights = {"enabled": True, "passwords": ["+secret-7"], "commands": ["+@all"],
              "keys": ["p:rag_meta:*", "p:rag_store:*", "p:rag_decompose:v1:customer_id=a*"]}
    for node in redis_cluster.nodes():
        node.acl_setuser("partly", **rights)
    connection("127.0.0.1", redis_cluster.ports[0], {"cluster": True}, login="partly", password="secret-7")
    try:
        with pytest.raises(UnreachableError) as refused, redis_client("r") as mine:
            clean_version(mine, "p:", "M", "1", {})
    finally:
        for node in redis_cluster.nodes():
            node.acl_deluser("partly")
    assert "UNLINK p:rag_decompose:v1:customer_id=…) of pipeline caused error" in str(refused.value)
    assert "jane" not in str(refused.value)
    assert marker_key("p:", "1") in names(cluster_client)
    assert "p:rag_decompose:v1:customer_id=jane.doe:q" in names(cluster_client)


def test_a_wrong_password_is_told_apart(redis_server: Server, connection: Connect) -> None:
    """Refused credentials say what to check, and never the password."""
    connection(*address(redis_server), login="nobody", password="secret-7")
    with pytest.raises(UnreachableError, match="Check login, password") as refused, redis_client("r") as mine:
        mine.ping()
    assert "secret-7" not in str(refused.value)


def test_tls_needs_the_right_authority(
    client: redis.Redis, redis_server: Server, connection: Connect, tmp_path: Path,
) -> None:
    """Over TLS the server's certificate is checked against ``ssl_ca_certs``; another authority's is refused."""
    doomed = fill(client, "p:", "1")
    ours, theirs = certificate(tmp_path / "ours"), certificate(tmp_path / "theirs")
    with tls_in_front_of(address(redis_server), ours) as port:
        connection("127.0.0.1", port, {"ssl": True, "db": 10, "ssl_ca_certs": str(theirs)})
        with pytest.raises(UnreachableError, match="certificate verify failed"), redis_client("r") as mine:
            mine.ping()
        connection("127.0.0.1", port, {"ssl": True, "db": 10, "ssl_ca_certs": str(ours)})
        with redis_client("r") as mine:
            assert clean_version(mine, "p:", "M", "1", {}).removed == {"1": len(doomed)}
