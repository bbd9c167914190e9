"""The environment of a serving pod, read once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from airflow_provider_ragops import contract
from airflow_provider_ragops.exceptions import ConfigurationError

ENV_CONCURRENCY = "SERVING_CONCURRENCY"
ENV_QUEUE = "SERVING_QUEUE"
ENV_REQUEST_SECONDS = "SERVING_REQUEST_SECONDS"
ENV_MAX_BODY_BYTES = "SERVING_MAX_BODY_BYTES"
ENV_MAX_QUERIES = "SERVING_MAX_QUERIES"
ENV_MAX_QUERY_CHARACTERS = "SERVING_MAX_QUERY_CHARACTERS"
ENV_DRAIN_SECONDS = "SERVING_DRAIN_SECONDS"
ENV_LINGER_SECONDS = "SERVING_LINGER_SECONDS"
ENV_REQUIRE_DIGEST = "SERVING_REQUIRE_DIGEST"
ENV_REQUEST_LOG = "SERVING_REQUEST_LOG"
ENV_LOG_KEY = "SERVING_LOG_KEY"
DEFAULT_CACHE = "/tmp/model_cache"  # noqa: S108  the chart mounts a directory per pod there


@dataclass(frozen=True)
class Limits:
    """What one request, and all of them together, may take.

    ``concurrency``: predictions at the same time; ``queue``: requests that may wait for one of them.
    ``request_seconds``: from the first byte read to the answer, waiting included.
    """

    concurrency: int = 4
    queue: int = 64
    request_seconds: int = 10
    body_bytes: int = 8 * 1024 * 1024
    queries: int = 64
    query_characters: int = 20_000

    @classmethod
    def from_environ(cls, environ: Mapping[str, str]) -> Limits:
        return cls(
            concurrency=_whole(environ, ENV_CONCURRENCY, cls.concurrency),
            queue=_whole(environ, ENV_QUEUE, cls.queue),
            request_seconds=_whole(environ, ENV_REQUEST_SECONDS, cls.request_seconds),
            body_bytes=_whole(environ, ENV_MAX_BODY_BYTES, cls.body_bytes),
            queries=_whole(environ, ENV_MAX_QUERIES, cls.queries),
            query_characters=_whole(environ, ENV_MAX_QUERY_CHARACTERS, cls.query_characters),
        )


@dataclass(frozen=True)
class Settings:
    """What this pod serves and how.

    ``model_version`` is empty until a release assigns one. ``drain_seconds``: from SIGTERM to the end of the last
    request in flight; must end within the grace period. ``linger_seconds``: how many of them new requests are still
    answered, with ``Connection: close``. ``require_digest``: refuse versions that carry no model digest.
    ``log_key``: keys the hash of customer ids in the log.
    """

    model_name: str
    model_version: str
    tracking_uri: str
    cache_dir: Path = Path(DEFAULT_CACHE)
    limits: Limits = field(default_factory=Limits)
    drain_seconds: int = 25
    linger_seconds: int = 2
    require_digest: bool = False
    request_log: bool = True
    log_key: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        if self.linger_seconds >= self.drain_seconds:
            raise _refused(ENV_LINGER_SECONDS, f"less than {ENV_DRAIN_SECONDS} ({self.drain_seconds})",
                           str(self.linger_seconds))

    @classmethod
    def from_environ(cls, environ: Mapping[str, str]) -> Settings:
        """:raises ConfigurationError: when a variable is missing or is not what it must be."""
        drain = _whole(environ, ENV_DRAIN_SECONDS, cls.drain_seconds)
        return cls(
            model_name=_required(environ, contract.ENV_MODEL_NAME),
            model_version=environ.get(contract.ENV_MODEL_VERSION, "").strip(),
            tracking_uri=_required(environ, contract.ENV_TRACKING_URI),
            cache_dir=Path(environ.get(contract.ENV_MODEL_CACHE) or DEFAULT_CACHE),
            limits=Limits.from_environ(environ),
            drain_seconds=drain,
            linger_seconds=_whole(environ, ENV_LINGER_SECONDS, min(cls.linger_seconds, drain - 1), least=0),
            require_digest=_flag(environ, ENV_REQUIRE_DIGEST, default=False),
            request_log=_flag(environ, ENV_REQUEST_LOG, default=True),
            log_key=environ.get(ENV_LOG_KEY, ""),
        )

    @property
    def subject(self) -> str:
        return f"model {self.model_name} version {self.model_version}"


def _required(environ: Mapping[str, str], name: str) -> str:
    if value := environ.get(name, "").strip():
        return value
    raise _refused(name, "a value", "nothing")


def _whole(environ: Mapping[str, str], name: str, default: int, least: int = 1) -> int:
    text = environ.get(name) or str(default)
    if not (text.isascii() and text.isdecimal()) or int(text) < least:
        raise _refused(name, f"a whole number of at least {least}", repr(text))
    return int(text)


def _flag(environ: Mapping[str, str], name: str, *, default: bool) -> bool:
    text = environ.get(name) or str(default).lower()
    if text not in ("true", "false"):
        raise _refused(name, "true or false", repr(text))
    return text == "true"


def _refused(name: str, expected: str, seen: str) -> ConfigurationError:
    return ConfigurationError(
        f"environment variable {name}", expected=expected, seen=seen,
        action="Correct the values of the mlflow-serve chart.",
    )
