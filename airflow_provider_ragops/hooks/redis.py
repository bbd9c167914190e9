"""Redis shared by a serving target's pods, through Airflow's connection of type ``redis``.

Settings are taken from the connection's extra by name, never wholesale: what someone may write there must not choose
any option of the client.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from airflow.sdk import BaseHook, Connection

from airflow_provider_ragops.exceptions import ConfigurationError, MissingExtraError, UnreachableError

CONNECT_TIMEOUT = 5.0
TIMEOUT = 10.0
# SCAN, HGETALL and UNLINK may be sent twice, and so may the removal of a marker.
RETRIES = 1

_TLS_FILES = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile")
_TLS = (*_TLS_FILES, "ssl_cert_reqs", "ssl_check_hostname")
_CERT_REQS = ("required", "optional", "none")
_RIGHTS = "SCAN, HGET, HGETALL, UNLINK, EVAL and, of a cluster, CLUSTER and COMMAND"
_FLAGS = {"true": True, "1": True, "false": False, "0": False}


@contextmanager
def redis_client(conn_id: str) -> Iterator[Any]:
    """A client with deadlines and decoded answers; of a cluster where the extra says ``{"cluster": true}``.

    TLS by the extra's ``ssl``, ``ssl_ca_certs``, ``ssl_certfile``, ``ssl_keyfile``, ``ssl_cert_reqs`` (required,
    optional, none) and ``ssl_check_hostname``. The database is the extra's ``db`` or the schema.

    :raises ConfigurationError: for a setting that is unknown or impossible; nothing was sent.
    :raises UnreachableError: when the server does not answer, or refuses, inside the block.
    """
    try:
        import redis
        from redis.backoff import ExponentialWithJitterBackoff
        from redis.exceptions import RedisClusterException
        from redis.retry import Retry
    except ImportError as error:
        raise MissingExtraError.of(f"connection {conn_id!r}", "redis", "redis") from error
    connection = BaseHook.get_connection(conn_id)
    is_cluster, settings = client_settings(connection)
    address = f"{settings['host']}:{settings['port']}"
    kind: Any = redis.RedisCluster if is_cluster else redis.Redis
    try:
        with kind(**settings, retry=Retry(ExponentialWithJitterBackoff(base=0.1, cap=1.0), RETRIES)) as client:
            yield client
    except (redis.RedisError, RedisClusterException) as error:
        raise UnreachableError(
            f"Redis at {address} (connection {conn_id!r})", expected=f"an answer within {TIMEOUT:g} s",
            seen=f"{type(error).__name__}: {without_customers(str(error))}", action=_action(error, is_cluster),
        ) from error


def client_settings(connection: Connection) -> tuple[bool, dict[str, Any]]:
    """Whether it is a cluster, and the arguments of redis-py's client.

    :raises ConfigurationError: naming the setting, what it must be and what it is.
    """
    extra = connection.extra_dejson
    is_cluster = _flag(connection, "cluster", False)
    settings = {
        "host": connection.host or "localhost", "port": connection.port or 6379,
        "username": connection.login or None, "password": connection.password or None,
        # Keys of other applications may be no text; what can't be decoded goes back as the bytes that it was.
        "decode_responses": True, "encoding_errors": "surrogateescape",
        "socket_timeout": TIMEOUT, "socket_connect_timeout": CONNECT_TIMEOUT, **_tls(connection),
    }
    databases = {str(value) for value in (extra.get("db"), connection.schema) if value not in (None, "")} or {"0"}
    database = databases.pop()
    if databases or not (database.isascii() and database.isdigit()):
        raise _wrong(connection, "one number as database", ", ".join(sorted({database, *databases})))
    if not is_cluster:
        return False, {**settings, "db": int(database)}
    if int(database):
        raise _wrong(connection, "database 0: a cluster has no other", database)
    return True, settings


def _tls(connection: Connection) -> dict[str, Any]:
    extra = connection.extra_dejson
    is_on = _flag(connection, "ssl", False)
    given = {name for name in extra if name.startswith("ssl_")}
    if unknown := given - {*_TLS}:
        raise _wrong(connection, f"settings for TLS among {', '.join(_TLS)}", ", ".join(sorted(unknown)))
    if not is_on:
        if given:
            raise _wrong(connection, '"ssl": true beside settings for TLS', f"{', '.join(sorted(given))} without it")
        return {}
    for name in _TLS_FILES:
        if extra.get(name) and not Path(extra[name]).is_file():
            raise _wrong(connection, f"{name} to name a file on this machine", repr(extra[name]))
    required = str(extra.get("ssl_cert_reqs", "required")).lower()
    if required not in _CERT_REQS:
        raise _wrong(connection, f"ssl_cert_reqs to be {', '.join(_CERT_REQS)}", repr(required))
    files = {name: extra[name] for name in _TLS_FILES if extra.get(name)}
    check = _flag(connection, "ssl_check_hostname", required != "none")
    return {"ssl": True, **files, "ssl_cert_reqs": required, "ssl_check_hostname": check}


def _flag(connection: Connection, name: str, default: bool) -> bool:
    """An extra that came out of a URI is text: ``"false"`` must not count as true."""
    value = connection.extra_dejson.get(name)
    found = default if value is None else _FLAGS.get(str(value).lower())
    if found is None:
        raise _wrong(connection, f"{name} to be true or false", repr(value))
    return found


def _wrong(connection: Connection, expected: str, seen: str) -> ConfigurationError:
    return ConfigurationError(
        f"connection {connection.conn_id!r}", expected=expected, seen=seen, action="Correct the connection's extra.",
    )


def _action(error: Exception, is_cluster: bool) -> str:
    from redis.exceptions import AuthenticationError, MovedError, NoPermissionError

    if isinstance(error, MovedError):
        return 'It is a cluster: set {"cluster": true} in the connection\'s extra.'
    if is_cluster and "cluster mode is not enabled" in str(error).lower():
        return 'It is a single server: remove "cluster" from the connection\'s extra.'
    if isinstance(error, AuthenticationError | NoPermissionError):
        return f"Check login, password and what the user may do: {_RIGHTS}."
    return "Check that it runs, the address and the password."


def without_customers(text: str) -> str:
    """An error of a pipeline quotes the command; the customers in its keys are no matter for a log."""
    return re.sub(r"customer_id=.*?(?=\) of pipeline caused error|\Z)", "customer_id=…", text, flags=re.DOTALL)
