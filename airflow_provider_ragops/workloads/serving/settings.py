"""The environment of a serving pod, read once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from airflow_provider_ragops import contract
from airflow_provider_ragops.exceptions import ConfigurationError

ENV_CONCURRENCY = "SERVING_CONCURRENCY"
ENV_DRAIN_SECONDS = "SERVING_DRAIN_SECONDS"
ENV_REQUIRE_DIGEST = "SERVING_REQUIRE_DIGEST"
DEFAULT_CACHE = "/tmp/model_cache"  # noqa: S108  the chart mounts a directory per pod there


@dataclass(frozen=True)
class Settings:
    """What this pod serves and how.

    ``model_version`` is empty until a release assigns one. ``concurrency``: predictions at the same time.
    ``drain_seconds``: how long in-flight requests may take after SIGTERM; must end within the grace period.
    ``require_digest``: refuse versions that carry no model digest.
    """

    model_name: str
    model_version: str
    tracking_uri: str
    cache_dir: Path = Path(DEFAULT_CACHE)
    concurrency: int = 4
    drain_seconds: int = 25
    require_digest: bool = False

    @classmethod
    def from_environ(cls, environ: Mapping[str, str]) -> Settings:
        """:raises ConfigurationError: when a variable is missing or is not what it must be."""
        return cls(
            model_name=_required(environ, contract.ENV_MODEL_NAME),
            model_version=environ.get(contract.ENV_MODEL_VERSION, "").strip(),
            tracking_uri=_required(environ, contract.ENV_TRACKING_URI),
            cache_dir=Path(environ.get(contract.ENV_MODEL_CACHE) or DEFAULT_CACHE),
            concurrency=_whole(environ, ENV_CONCURRENCY, 4),
            drain_seconds=_whole(environ, ENV_DRAIN_SECONDS, 25),
            require_digest=_flag(environ, ENV_REQUIRE_DIGEST),
        )

    @property
    def subject(self) -> str:
        return f"model {self.model_name} version {self.model_version}"


def _required(environ: Mapping[str, str], name: str) -> str:
    if value := environ.get(name, "").strip():
        return value
    raise _refused(name, "a value", "nothing")


def _whole(environ: Mapping[str, str], name: str, default: int) -> int:
    text = environ.get(name) or str(default)
    if not text.isdecimal() or int(text) < 1:
        raise _refused(name, "a whole number above 0", repr(text))
    return int(text)


def _flag(environ: Mapping[str, str], name: str) -> bool:
    text = environ.get(name) or "false"
    if text not in ("true", "false"):
        raise _refused(name, "true or false", repr(text))
    return text == "true"


def _refused(name: str, expected: str, seen: str) -> ConfigurationError:
    return ConfigurationError(
        f"environment variable {name}", expected=expected, seen=seen,
        action="Correct the values of the mlflow-serve chart.",
    )
