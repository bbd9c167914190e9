"""The Feast connection: its fields, its errors, and Redis' address in Feast's own notation."""

from __future__ import annotations

import json
import socket
import time
import traceback
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


@pytest.mark.parametrize("url", [
    "redis://r:port", "redis://r:99999", "redis://[::1", "redis://[::1]:6379", "redis://r/first",
    "redis://:canary/x@r:6379", "redis://me:1234/canary@r:6379", "redis://127.0.0.1:1?socket_timeout=canary",
    "redis://127.0.0.1:1?canary=1",
])
def test_impossible_redis_url(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    """A port, a database or an option that can't be: permanent, and nothing of a password shows, not even its start."""
    hook = connect(monkeypatch, redis_url=url, registry_url="sqlite://", repo="r")
    with pytest.raises(ConfigurationError, match=r"Redis URL of .*Correct redis_url") as raised:
        hook.store()
    shown = "".join(traceback.format_exception(raised.value))
    assert raised.value.permanent
    assert "canary" not in shown
    assert "1234" not in shown
    assert hook.test_connection() == (False, str(raised.value))


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


REPOSITORY = """
project: p
provider: local
registry: {registry_type: sql, path: "${FEAST_REGISTRY_URL}"}
offline_store: {type: duckdb}
online_store:
  type: redis
  connection_string: ${FEAST_REDIS}  # as the hook writes it
entity_key_serialization_version: 3
"""
VARIABLES = {"FEAST_REGISTRY_URL": "sqlite://", "FEAST_REDIS": "canary: a #b ${C} {"}


@pytest.mark.parametrize("password", ["x: y", "x #y", "{x", "'x", "$HOME", "${X}", "x\ny: z", "- x"])
def test_any_password_reaches_feast_whole(tmp_path: Path, password: str) -> None:
    """What YAML would read as structure, as a comment or as a variable is kept as the text that it is."""
    (tmp_path / "feature_store.yaml").write_text(REPOSITORY)
    told = feast_redis("redis://r", password)
    store = open_store(tmp_path, {**VARIABLES, "FEAST_REDIS": told})
    assert store.config.online_store.connection_string == told


@pytest.mark.parametrize(("old", "new", "seen"), [
    ("project: p", "project: -p", "project: value_error"),
    ("connection_string", "conection_string", "conection_string: extra_forbidden"),
    ("type: redis", "type: nostore", "saw FeastOnlineStoreInvalidName"),
    ("project: p", "project: ${FEAST_REDIS}", "project: value_error"),
    ("project: p", "project: p: canary", "saw no YAML in line 2, column 11"),
    ("project: p", "project: $ canary", r"expected only \$\{NAME\}"),
    (REPOSITORY, "- canary", "expected a mapping in feature_store.yaml; saw list"),
])  # fmt: skip
def test_impossible_repository(tmp_path: Path, old: str, new: str, seen: str) -> None:
    """Each wrong setting is named; no error shows a value, not even in its causes: one of them is a password."""
    (tmp_path / "feature_store.yaml").write_text(REPOSITORY.replace(old, new))
    with pytest.raises(ConfigurationError, match=f"feature repository {tmp_path}: .*{seen}") as raised:
        open_store(tmp_path, VARIABLES)
    assert "canary" not in "".join(traceback.format_exception(raised.value))


def test_definitions_that_fail(tmp_path: Path) -> None:
    """A definition file that can't be imported is named with its error; so is a repository without views."""
    with pytest.raises(ConfigurationError, match="at least one FeatureView; saw 0 objects"):
        load_definitions(tmp_path)
    (tmp_path / "definitions.py").write_text("import os\nos.environ['NOBODY_SETS_THIS']\n")
    with pytest.raises(ConfigurationError, match=r"definitions.py: .*saw KeyError: 'NOBODY_SETS_THIS'"):
        load_definitions(tmp_path)


def make_repository(folder: Path, registry: str) -> Path:
    (folder / "feature_store.yaml").write_text(
        "project: p\nprovider: local\nregistry: {registry_type: sql, path: '" + registry + "'}\n"
        "online_store: {type: sqlite, path: online.db}\nentity_key_serialization_version: 3\n"
    )
    return folder


@pytest.mark.parametrize(("registry", "error", "told"), [
    ("nonsense", ConfigurationError, "a registry_url that SQLAlchemy knows"),
    ("nosuch://u:canary@h/db", ConfigurationError, "its driver installed"),
    ("sqlite:////no/such/folder/canary.db", UnreachableError, "a database that answers; saw OperationalError"),
])
def test_registry_that_can_not_be_opened(tmp_path: Path, registry: str, error: type[Exception], told: str) -> None:
    """A bad registry URL or a silent database is named with the field to correct, and never repeats the URL."""
    with pytest.raises(error, match=told) as raised:
        open_store(make_repository(tmp_path, registry), {})
    assert "canary" not in str(raised.value)
