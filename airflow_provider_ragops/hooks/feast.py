"""Connects to Feast: an Airflow connection to an opened store, after Redis has answered."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from airflow.sdk import BaseHook

from airflow_provider_ragops.exceptions import ConfigurationError, MissingExtraError, UnreachableError
from airflow_provider_ragops.features.repository import open_store

if TYPE_CHECKING:
    from feast import FeatureStore

TIMEOUT_S = 5.0


class FeastHook(BaseHook):
    """
    Open a Feast store from a connection of type ``feast``.

    The connection's extra holds ``repo`` (folder of feature_store.yaml), ``registry_url`` (SQLAlchemy URL; given to
    the YAML as ``${FEAST_REGISTRY_URL}``) and ``redis_url`` (``redis://`` or ``rediss://``; given to the YAML as
    ``${FEAST_REDIS}`` in Feast's own notation, with timeouts). The connection's password, if any, is Redis'.

    :param feast_conn_id: the connection
    :param repo: overrides the connection's ``repo``
    """

    conn_name_attr = "feast_conn_id"
    default_conn_name = "feast_default"
    conn_type = "feast"
    hook_name = "Feast"

    def __init__(self, feast_conn_id: str = default_conn_name, *, repo: str | None = None) -> None:
        super().__init__()
        self.feast_conn_id = feast_conn_id
        self._repo = repo

    @property
    def repo(self) -> Path:
        return Path(self._repo or self._extra("repo"))

    def store(self) -> FeatureStore:
        """Open the store.

        :raises UnreachableError: naming Redis' address, when it does not answer within 5 s.
        :raises ConfigurationError: when a field of the connection is missing or wrong.
        """
        redis_url = self._extra("redis_url")
        password = self.get_connection(self.feast_conn_id).password
        variables = {
            "FEAST_REGISTRY_URL": self._extra("registry_url"),
            "FEAST_REDIS": feast_redis(redis_url, password),
        }
        _check_redis(redis_url, password)
        return open_store(self.repo, variables)

    def test_connection(self) -> tuple[bool, str]:
        try:
            return True, f"Feast project {self.store().project}; Redis answers"
        except (ConfigurationError, UnreachableError) as error:
            return False, str(error)

    def _extra(self, name: str) -> str:
        value = self.get_connection(self.feast_conn_id).extra_dejson.get(name)
        if not value:
            raise ConfigurationError(
                f"connection {self.feast_conn_id}", expected=f"the field {name}", seen="none",
                action=f"Add {name} to the extra of the connection.",
            )
        return str(value)


def feast_redis(url: str, password: str | None = None) -> str:
    """Translate a Redis URL into Feast's ``host:port,name=value`` notation, with timeouts.

    :raises ConfigurationError: when the URL can't be read, or can't be written that way.
    """
    parts = _readable(url)
    if parts is None or parts.scheme not in ("redis", "rediss") or not parts.hostname:
        raise _url_error(url, "redis://host:port/db or rediss://…, with special characters percent-encoded")
    database = parts.path.strip("/") or "0"
    if not database.isdecimal():
        raise _url_error(url, "redis://host:port/db with a number as db")
    options: dict[str, Any] = {"db": database, **dict(parse_qsl(parts.query))}
    if parts.scheme == "rediss":
        options["ssl"] = "true"
    if parts.username:
        options["username"] = unquote(parts.username)
    if secret := password or (parts.password and unquote(parts.password)):
        options["password"] = json.dumps(secret)  # Feast reads values as JSON: digits would become a number
    options |= {"socket_timeout": TIMEOUT_S, "socket_connect_timeout": TIMEOUT_S}
    if ":" in parts.hostname or any("," in str(value) for value in options.values()):
        raise _url_error(url, "no IPv6 address, and no comma in any part: Feast separates by them")
    return ",".join([f"{parts.hostname}:{parts.port or 6379}", *(f"{k}={v}" for k, v in options.items())])


def _check_redis(url: str, password: str | None) -> None:
    try:
        import redis
    except ImportError as error:
        raise MissingExtraError.of("the online store", "redis", "redis") from error
    extra = {"password": password} if password else {}
    try:
        with redis.Redis.from_url(
            url, socket_timeout=TIMEOUT_S, socket_connect_timeout=TIMEOUT_S, **extra
        ) as client:
            client.ping()
    except redis.RedisError as error:
        raise UnreachableError(
            f"Redis at {_address(url)}", expected=f"an answer to PING within {TIMEOUT_S:.0f} s", seen=str(error),
            action="Check that it runs, the address, the password and the network.",
        ) from error
    except (TypeError, ValueError):  # options are only read when the client is made, or connects
        raise _url_error(url, "options that redis-py knows, with values of their kinds") from None


def _url_error(url: str, expected: str) -> ConfigurationError:
    return ConfigurationError(
        f"Redis URL of {_address(url)}", expected=expected, seen="something else", action="Correct redis_url.",
    )


def _readable(url: str) -> SplitResult | None:
    """The URL's parts; None where it has no valid port, or an @ after the address, as a bare / in a password gives."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return None
    return None if "@" in f"{parts.path}{parts.query}{parts.fragment}" else parts


def _address(url: str) -> str:
    """The address without the password, for messages; nothing of a text in which a password may be anywhere."""
    parts = _readable(url)
    if parts is None or not parts.hostname:
        return "an unreadable address"
    return parts.netloc.rpartition("@")[2]
