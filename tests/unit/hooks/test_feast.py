"""The Feast connection: its fields, its errors, and Redis' address in Feast's own notation."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_provider_ragops.exceptions import ConfigurationError, UnreachableError
from airflow_provider_ragops.features.repository import load_definitions, open_store
from airflow_provider_ragops.hooks.feast import FeastHook, feast_redis

TIMEOUTS = "socket_timeout=5.0,socket_connect_timeout=5.0"


def connect(monkeypatch: pytest.MonkeyPatch, password: str = "", **extra: str) -> FeastHook:
    value = json.dumps({"conn_type": "feast", "password": password, "extra": extra})
    monkeypatch.setenv("AIRFLOW_CONN_FEAST_DEFAULT", value)
    return FeastHook()


@pytest.fixture
def silent_port() -> Iterator[int]:
    """A port that accepts and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.mark.parametrize(("url", "password", "told"), [
    ("redis://r:6379", None, f"r:6379,db=0,{TIMEOUTS}"),
    ("redis://r/3", None, f"r:6379,db=3,{TIMEOUTS}"),
    ("rediss://user:p%40ss@r:7/1", None, f'r:7,db=1,ssl=true,username=user,password="p@ss",{TIMEOUTS}'),
    ("redis://:old@r", "12345", f'r:6379,db=0,password="12345",{TIMEOUTS}'),
])
def test_address_in_feasts_notation(url: str, password: str | None, told: str) -> None:
    """Host, database, TLS and credentials are carried over, with deadlines; digits stay a text."""
    assert feast_redis(url, password) == told


@pytest.mark.parametrize("url", ["http://r:6379", "r:6379", "redis://"])
def test_no_redis_url(url: str) -> None:
    """What is no Redis URL is refused with the expected form."""
    with pytest.raises(ConfigurationError, match="expected redis://host:port/db"):
        feast_redis(url)


def test_comma_in_a_password() -> None:
    """A password that Feast would cut in two is refused, without showing it."""
    with pytest.raises(ConfigurationError, match="no comma in any part") as raised:
        feast_redis("redis://:one,two@r:6379")
    assert "one,two" not in str(raised.value)


@pytest.mark.parametrize("missing", ["repo", "registry_url", "redis_url"])
def test_missing_field(monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    """A field that is not filled in is named."""
    fields = {"repo": "r", "registry_url": "sqlite://", "redis_url": "redis://127.0.0.1:1"}
    hook = connect(monkeypatch, **{name: value for name, value in fields.items() if name != missing})
    with pytest.raises(ConfigurationError, match=f"connection feast_default: expected the field {missing}"):
        hook._extra(missing)


def test_closed_port(monkeypatch: pytest.MonkeyPatch) -> None:
    """Redis that is not there: the error names its address, not its password, and stays retryable."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    hook = connect(monkeypatch, redis_url=f"redis://:secret@127.0.0.1:{port}", registry_url="sqlite://", repo="r")
    with pytest.raises(UnreachableError, match=f"Redis at 127.0.0.1:{port}: expected an answer to PING") as raised:
        hook.store()
    assert not raised.value.permanent
    assert "secret" not in str(raised.value)
    assert hook.test_connection() == (False, str(raised.value))


def test_silent_redis(monkeypatch: pytest.MonkeyPatch, silent_port: int) -> None:
    """A server that accepts and says nothing is given up after the deadline."""
    monkeypatch.setattr("airflow_provider_ragops.hooks.feast.TIMEOUT_S", 0.2)
    hook = connect(monkeypatch, redis_url=f"redis://127.0.0.1:{silent_port}", registry_url="sqlite://", repo="r")
    started = time.monotonic()
    with pytest.raises(UnreachableError, match=f"Redis at 127.0.0.1:{silent_port}"):
        hook.store()
    assert time.monotonic() - started < 10


def test_no_repository(tmp_path: Path) -> None:
    """A folder without feature_store.yaml is named."""
    with pytest.raises(ConfigurationError, match=f"feature repository {tmp_path}: expected a valid feature_store.yaml"):
        open_store(tmp_path, {})


def test_unset_variable(tmp_path: Path) -> None:
    """A variable that nobody sets is named; it is never left in the text."""
    (tmp_path / "feature_store.yaml").write_text("project: p\nregistry: ${NOBODY_SETS_THIS}\n")
    with pytest.raises(ConfigurationError, match=r"expected a value for \$\{NOBODY_SETS_THIS\}"):
        open_store(tmp_path, {})


def test_definitions_that_fail(tmp_path: Path) -> None:
    """A definition file that can't be imported is named with its error; so is a repository without views."""
    with pytest.raises(ConfigurationError, match="at least one FeatureView; saw 0 objects"):
        load_definitions(tmp_path)
    (tmp_path / "definitions.py").write_text("import os\nos.environ['NOBODY_SETS_THIS']\n")
    with pytest.raises(ConfigurationError, match=r"definitions.py: .*saw KeyError: 'NOBODY_SETS_THIS'"):
        load_definitions(tmp_path)
