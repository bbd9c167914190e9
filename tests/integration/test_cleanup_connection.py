"""Clean-up through Airflow's connection: a single server, a cluster, TLS, and users who may not do everything."""

from __future__ import annotations

import datetime
import ipaddress
import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import redis
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from redis.crc import key_slot

from airflow_provider_ragops.cache.cleanup import CleanupReport, clean_stale, clean_version, clean_versions
from airflow_provider_ragops.cache.inventory import leftovers, unmarked
from airflow_provider_ragops.cache.keyspace import key_space_fault
from airflow_provider_ragops.contract import marker_key
from airflow_provider_ragops.exceptions import UnreachableError
from airflow_provider_ragops.hooks.redis import redis_client
from tests.key_space import connect, fill, names
from tests.server import Server
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


def certificate(folder: Path) -> Path:
    """A self-signed certificate for 127.0.0.1 with its key, in one PEM file."""
    folder.mkdir()
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, folder.name)])
    now = datetime.datetime.now(datetime.timezone.utc)
    built = (
        x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1)).not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    file = folder / "server.pem"
    file.write_bytes(pem + built.public_bytes(serialization.Encoding.PEM))
    return file


class tls_in_front_of:  # noqa: N801 - used as a function
    """A port that speaks TLS and passes what it hears on to a server that does not (the embedded Valkey can't)."""

    def __init__(self, server: tuple[str, int], file: Path) -> None:
        self._server = server
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(file)
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> int:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._run(self._accept)
        return int(self._listener.getsockname()[1])

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join(10)

    def _run(self, work: Callable[..., None], *arguments: Any) -> None:
        thread = threading.Thread(target=work, args=arguments)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        for plain in self._connections():
            try:
                secure = self._context.wrap_socket(plain, server_side=True)
            except OSError:  # the client refused our certificate
                plain.close()
                continue
            upstream = socket.create_connection(self._server, timeout=10)
            self._run(self._pass_on, secure, upstream)
            self._run(self._pass_on, upstream, secure)

    def _connections(self) -> Iterator[socket.socket]:
        while True:
            try:
                found, _ = self._listener.accept()
            except OSError:
                return
            found.settimeout(10)
            yield found

    @staticmethod
    def _pass_on(source: socket.socket, target: socket.socket) -> None:
        with source:
            try:
                while data := source.recv(65536):
                    target.sendall(data)
                target.shutdown(socket.SHUT_WR)
            except OSError:
                return
