"""How the pods reach Redis and what the cache may cost, from the environment; the password comes from a Secret."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote, urlsplit

from airflow_provider_ragops import contract
from airflow_provider_ragops.exceptions import ConfigurationError

_SCHEMES = {"redis": False, "rediss": True}


@dataclass(frozen=True)
class Server:
    """Where Redis is. ``host`` is empty where there is none, and nothing is cached then."""

    host: str = ""
    port: int = 6379
    database: int = 0
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    is_tls: bool = False
    ca_file: str = ""
    cert_file: str = ""
    key_file: str = ""
    is_cluster: bool = False

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"


@dataclass(frozen=True)
class Limits:
    """What the cache may cost. Times in seconds, sizes in bytes.

    :param budget: what Redis may cost one request.
    :param connect: for making a connection, which no single request waits for longer than its budget.
    :param ttl: of values; each gets up to ``jitter`` of it more or less.
    :param slack: the marker outlives the last value by this.
    :param lease: how long another pod waits at most before it takes over from a builder that died.
    :param patience: how long a request waits for another pod's builder before it builds for itself.
    :param largest: values above this size are neither written nor read.
    :param flights: questions that are being built at once in a process; more are built without cache.
    :param reclaim: pause after the marker was missing or another's, before it is looked at again.
    :param pause: pause of writing after the server refused to (full, read-only).
    """

    budget: float = 0.05
    connect: float = 1.0
    ttl: float = 3600.0
    jitter: float = 0.1
    slack: float = 300.0
    lease: float = 2.0
    patience: float = 0.5
    largest: int = 262_144
    flights: int = 4096
    waiting: int = 4096
    reclaim: float = 30.0
    pause: float = 1.0

    @property
    def longest(self) -> float:
        """The time to live of a value at most."""
        return self.ttl * (1 + self.jitter)

    @property
    def marker_ttl(self) -> float:
        return self.longest + self.slack


@dataclass(frozen=True)
class CacheSettings:
    """``may_evict``: Redis holds nothing but the cache, so that its server may evict any key."""

    server: Server = field(default_factory=Server)
    prefix: str = ""
    may_evict: bool = False
    limits: Limits = field(default_factory=Limits)

    @classmethod
    def from_environ(cls, environ: Mapping[str, str]) -> CacheSettings:
        """:raises ConfigurationError: a variable is not what it must be; the password is in no message."""
        server = _server(environ)
        prefix = environ.get(contract.ENV_REDIS_PREFIX, "")
        if server.is_cluster and not {"{", "}"}.isdisjoint(prefix):
            raise _wrong(contract.ENV_REDIS_PREFIX, "no braces on a cluster: they would put all keys on one slot",
                         repr(prefix))
        limits = Limits(
            budget=_number(environ, contract.ENV_REDIS_BUDGET, Limits.budget * 1000, most=10_000) / 1000,
            ttl=_number(environ, contract.ENV_REDIS_TTL, Limits.ttl, most=30 * 86_400),
        )
        return cls(server, prefix, _flag(environ, contract.ENV_REDIS_MAY_EVICT), limits)


def _server(environ: Mapping[str, str]) -> Server:
    url = environ.get(contract.ENV_REDIS_URL, "").strip()
    if not url:
        return Server()
    parts = urlsplit(url)
    database = parts.path.strip("/") or "0"
    is_cluster = _flag(environ, contract.ENV_REDIS_CLUSTER)
    # What a URL may say beyond this is not passed on: it could choose any option of the client.
    if parts.scheme not in _SCHEMES or not parts.hostname or parts.query or parts.fragment or not _is_number(database):
        raise _wrong(contract.ENV_REDIS_URL, "redis[s]://host[:port][/database], nothing more", _without_user(url))
    if is_cluster and int(database):
        raise _wrong(contract.ENV_REDIS_URL, "database 0: a cluster has no other", database)
    return Server(
        host=parts.hostname, port=_port(url), database=int(database), is_tls=_SCHEMES[parts.scheme],
        username=environ.get(contract.ENV_REDIS_USERNAME) or unquote(parts.username or "") or None,
        password=environ.get(contract.ENV_REDIS_PASSWORD) or unquote(parts.password or "") or None,
        is_cluster=is_cluster, **_files(environ, is_tls=_SCHEMES[parts.scheme]),
    )


def _files(environ: Mapping[str, str], *, is_tls: bool) -> dict[str, str]:
    names = {"ca_file": contract.ENV_REDIS_CA, "cert_file": contract.ENV_REDIS_CERT, "key_file": contract.ENV_REDIS_KEY}
    found = {field: environ[name] for field, name in names.items() if environ.get(name)}
    for field_name, path in found.items():
        if not is_tls:
            raise _wrong(names[field_name], "a URL that begins with rediss:// beside it", "redis://")
        if not Path(path).is_file():
            raise _wrong(names[field_name], "a file in this container", repr(path))
    return found


def _port(url: str) -> int:
    try:
        return urlsplit(url).port or 6379
    except ValueError as error:
        raise _wrong(contract.ENV_REDIS_URL, "a port from 1 to 65535", _without_user(url)) from error


def _without_user(url: str) -> str:
    head, separator, rest = url.partition("://")
    return repr(f"{head}{separator}{rest.rpartition('@')[2]}") if separator else "something without ://"


def _number(environ: Mapping[str, str], name: str, default: float, most: float) -> float:
    text = environ.get(name) or f"{default:g}"
    if not _is_number(text) or not 1 <= int(text) <= most:
        raise _wrong(name, f"a whole number from 1 to {most:g}", repr(text))
    return float(text)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 10


def _flag(environ: Mapping[str, str], name: str) -> bool:
    text = environ.get(name) or "false"
    if text not in ("true", "false"):
        raise _wrong(name, "true or false", repr(text))
    return text == "true"


def _wrong(name: str, expected: str, seen: str) -> ConfigurationError:
    return ConfigurationError(f"environment variable {name}", expected=expected, seen=seen,
                              action="Correct the values of the mlflow-serve chart.")
