from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from datetime import date, datetime, timedelta, timezone
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Event, Thread
from typing import Any
from unittest import mock

import pytest

from airflow_provider_ragops.contract import ServingTarget
from airflow_provider_ragops.exceptions import ConfigurationError, MissingExtraError, RegistryError, UnreachableError
from airflow_provider_ragops.hooks.mlflow import MlflowHook
from airflow_provider_ragops.promotion.ledger import LedgerEntry


@pytest.fixture(autouse=True)
def _own_environment() -> Iterator[None]:
    with mock.patch.dict(os.environ):
        yield


def _hook(extra: dict[str, Any] | None = None, **fields: Any) -> MlflowHook:
    os.environ["AIRFLOW_CONN_MLFLOW_DEFAULT"] = json.dumps({"conn_type": "mlflow", "extra": extra or {}, **fields})
    return MlflowHook()


@pytest.mark.parametrize(
    ("connection", "uri"),
    [
        ({"host": "mlflow"}, "http://mlflow"),
        ({"host": "mlflow", "port": 5000}, "http://mlflow:5000"),
        ({"host": "mlflow", "schema": "https", "port": 443}, "https://mlflow:443"),
        ({"host": "https://mlflow/", "port": 443}, "https://mlflow:443"),
        ({"host": "mlflow", "extra": {"tracking_uri": "sqlite:////data/m.db"}}, "sqlite:////data/m.db"),
    ],
)
def test_tracking_uri_follows_the_connection(connection: dict[str, Any], uri: str) -> None:
    """Scheme, host and port make the address; ``tracking_uri`` overrides them."""
    assert _hook(**connection).tracking_uri == uri


@pytest.mark.parametrize(
    ("connection", "seen"),
    [
        ({}, "expected a host, or 'tracking_uri'"),
        ({"host": "mlflow", "schema": "ftp"}, "saw 'ftp'"),
        ({"host": "mlflow", "extra": {"ca_path": "/nowhere/ca.pem"}}, "saw '/nowhere/ca.pem'"),
    ],
)
def test_impossible_connection_is_refused(connection: dict[str, Any], seen: str) -> None:
    """A connection that can't work is refused before any request; the error names it."""
    with pytest.raises(ConfigurationError, match=f"connection 'mlflow_default': .*{seen}"):
        _hook(**connection).client()


class Answers(BaseHTTPRequestHandler):
    """Answers every request with the server's ``status`` and remembers the headers."""

    def do_GET(self) -> None:
        if self.path != "/health":
            self.server.ready.wait(10)  # type: ignore[attr-defined]
        self.server.seen.append(self.headers)  # type: ignore[attr-defined]
        self.send_response(self.server.status)  # type: ignore[attr-defined]
        self.end_headers()
        self.wfile.write(b"no")

    do_POST = do_PUT = do_GET  # noqa: N815 - the names that http.server looks for

    def log_message(self, *args: Any) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Any]:
    """A web server on loopback that is no MLflow."""
    with HTTPServer(("127.0.0.1", 0), Answers) as found:
        found.status, found.seen, found.ready = 200, [], Event()  # type: ignore[attr-defined]
        found.ready.set()  # type: ignore[attr-defined]
        thread = Thread(target=found.serve_forever)
        thread.start()
        yield found
        found.shutdown()
        thread.join()


def test_dead_server_is_named_at_once() -> None:
    """An unreachable MLflow is named with its address and what to check, without a long retry."""
    with HTTPServer(("127.0.0.1", 0), Answers) as closed:
        port = closed.server_port
    begin = time.monotonic()

    with pytest.raises(UnreachableError, match=rf"http://127.0.0.1:{port} \(connection 'mlflow_default'\).*Check that"):
        _hook(host="127.0.0.1", port=port).registry()

    assert time.monotonic() - begin < 6
    good, told = _hook(host="127.0.0.1", port=port).test_connection()
    assert not good
    assert str(port) in told


@pytest.mark.parametrize(("status", "error"), [(401, RegistryError), (403, RegistryError), (503, UnreachableError)])
def test_refusals_are_told_apart(server: Any, status: int, error: type[Exception]) -> None:
    """Wrong credentials are permanent and name the connection; a failing proxy may pass."""
    server.status = status

    with pytest.raises(error, match=f"connection 'mlflow_default'.*HTTP {status}"):
        _hook(host="127.0.0.1", port=server.server_port).client()


def test_credentials_of_the_connection_are_sent(server: Any) -> None:
    """User and password go to the server of their own connection, and a token replaces them."""
    client = _hook(host="127.0.0.1", port=server.server_port, login="ann", password="canary").client()
    with pytest.raises(Exception, match="no"):
        client.search_experiments()
    assert {each["Authorization"] for each in server.seen} == {"Basic YW5uOmNhbmFyeQ=="}

    server.seen.clear()
    both = {"login": "ann", "password": "canary"}
    client = _hook({"token": "t0ken"}, host="127.0.0.1", port=server.server_port, **both).client()
    with pytest.raises(Exception, match="no"):
        client.search_experiments()
    assert [each["Authorization"] for each in server.seen] == ["Bearer t0ken"] * 2


def test_netrc_does_not_replace_the_token(server: Any, tmp_path: Path) -> None:
    """A password for this host in the worker's ~/.netrc does not turn the probe into a refusal."""
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login someone password else\n")
    os.environ["NETRC"] = str(tmp_path / "netrc")

    _hook({"token": "t0ken"}, host="127.0.0.1", port=server.server_port).client()

    assert [each["Authorization"] for each in server.seen] == ["Bearer t0ken"]


def test_credentials_do_not_reach_another_server(server: Any) -> None:
    """A connection without user does not inherit the user of the connection that was used before."""
    _hook(host="127.0.0.1", port=server.server_port, login="ann", password="canary").client()
    client = _hook(host="127.0.0.1", port=server.server_port).client()
    server.seen.clear()

    with pytest.raises(Exception, match="no"):
        client.search_experiments()
    assert server.seen
    assert [each["Authorization"] for each in server.seen] == [None] * len(server.seen)


def test_waits_are_bounded_unless_set(server: Any) -> None:
    """MLflow's own 120 s and 7 retries are replaced; a deployment's own values stay."""
    os.environ["MLFLOW_HTTP_REQUEST_TIMEOUT"] = "33"
    os.environ.pop("MLFLOW_HTTP_REQUEST_MAX_RETRIES", None)

    _hook(host="127.0.0.1", port=server.server_port).client()

    assert os.environ["MLFLOW_HTTP_REQUEST_TIMEOUT"] == "33"
    assert os.environ["MLFLOW_HTTP_REQUEST_MAX_RETRIES"] == "2"


def test_hung_server_is_given_up(server: Any) -> None:
    """A server that takes a request and never answers it is unreachable, named, and not waited for for ever."""
    os.environ |= {"MLFLOW_HTTP_REQUEST_TIMEOUT": "1", "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0"}
    registry = _hook(host="127.0.0.1", port=server.server_port).registry()
    server.ready.clear()
    begin = time.monotonic()
    try:
        with pytest.raises(UnreachableError, match=rf"alias 'champion' of model 'M' at http://127.0.0.1:{server.server_port}"):
            registry.alias("M", "champion")
    finally:
        server.ready.set()

    assert time.monotonic() - begin < 20  # MLflow's own 120 s are far; a busy machine is not


def test_passwords_in_an_address_are_not_told() -> None:
    """Credentials in a web address are refused, because MLflow repeats addresses; no message shows them."""
    for connection in ({"extra": {"tracking_uri": "http://ann:canary@127.0.0.1:9"}}, {"host": "ann:canary@127.0.0.1"}):
        good, told = _hook(**connection).test_connection()

        assert not good
        assert "in their own fields; saw both in http://127.0.0.1" in told
        assert "canary" not in told


def test_missing_library_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without mlflow installed, the error says what to install."""
    monkeypatch.setitem(sys.modules, "mlflow", None)

    with pytest.raises(MissingExtraError, match=r"airflow-provider-ragops\[mlflow\]"):
        _hook(host="mlflow").client()


def test_runs_are_found_by_tags(mlflow_store: MlflowHook) -> None:
    """The newest run with all tags; None for other tags, another status, or a missing experiment."""
    tags = {"ragops.kind": "training-set", "ragops.partition": "2026-11-29"}
    assert mlflow_store.find_run("churn", tags) is None
    first, second = mlflow_store.start_run("churn", "a", tags), mlflow_store.start_run("churn", "b", tags)
    mlflow_store.end_run(first)

    def found(status: str | None = None, **more: str) -> str | None:
        run = mlflow_store.find_run("churn", {**tags, **more}, status)
        return run and str(run.info.run_id)

    assert found() in (first, second)
    assert found("FINISHED") == first
    assert found("RUNNING") == second
    assert found("FAILED") is None
    assert found(other="x") is None


def test_experiment_is_created_once_and_a_deleted_one_is_named(mlflow_store: MlflowHook) -> None:
    """Two starts share one experiment; a deleted one still holds its name, which is said."""
    runs = [mlflow_store.run(mlflow_store.start_run("churn", name, {})) for name in "ab"]
    assert len({run.info.experiment_id for run in runs}) == 1
    mlflow_store.client().delete_experiment(runs[0].info.experiment_id)

    with pytest.raises(RegistryError, match=r"experiment 'churn'.*deleted one"):
        mlflow_store.start_run("churn", "c", {})


@pytest.mark.parametrize(
    ("status", "error"), [(403, RegistryError), (404, RegistryError), (429, UnreachableError), (503, UnreachableError)]
)
def test_refused_upload_is_named(
    mlflow_store: MlflowHook, server: Any, tmp_path: Path, status: int, error: type[Exception]
) -> None:
    """What the artifact proxy refuses names the file, the run and the connection; what may pass is retried."""
    os.environ["MLFLOW_HTTP_REQUEST_MAX_RETRIES"] = "0"
    place = f"http://127.0.0.1:{server.server_port}/artifacts"
    mlflow_store.client().create_experiment("remote", place)
    run_id = mlflow_store.start_run("remote", "a", {})
    (tmp_path / "t.parquet").write_bytes(b"rows")
    server.status = status

    with pytest.raises(error, match=rf"artifact 'set/t.parquet' of run '{run_id}' at .*'mlflow_default'.*{status}"):
        mlflow_store.log_file(run_id, tmp_path / "t.parquet", "set")


def test_file_is_kept(mlflow_store: MlflowHook, tmp_path: Path) -> None:
    """A file goes into its folder of the run's artifacts."""
    (tmp_path / "t.parquet").write_bytes(b"rows")
    run_id = mlflow_store.start_run("churn", "a", {})

    mlflow_store.log_file(run_id, tmp_path / "t.parquet", "set")

    found = mlflow_store.download(run_id, "set/t.parquet", tmp_path)
    assert found
    assert found.read_bytes() == b"rows"


def test_experiment_is_named(mlflow_store: MlflowHook) -> None:
    """A run's experiment has a name; an id that does not exist is told with the connection."""
    run = mlflow_store.run(mlflow_store.start_run("churn", "a", {}))
    assert mlflow_store.experiment_name(run.info.experiment_id) == "churn"
    with pytest.raises(RegistryError, match=r"experiment '99' at .*\(connection 'mlflow_default'\)"):
        mlflow_store.experiment_name("99")


def test_json_artifacts_come_back(mlflow_store: MlflowHook, tmp_path: Path) -> None:
    """A value is kept as JSON; NaN is refused rather than written; a missing file is None."""
    run_id = mlflow_store.start_run("churn", "a", {})
    mlflow_store.log_json(run_id, "gate/report.json", {"a": 1})

    file = mlflow_store.download(run_id, "gate/report.json", tmp_path)
    assert file
    assert json.loads(file.read_text()) == {"a": 1}
    assert mlflow_store.download(run_id, "gate/other.json", tmp_path) is None
    with pytest.raises(ValueError, match="not JSON compliant"):
        mlflow_store.log_json(run_id, "gate/report.json", {"a": float("nan")})


def test_what_served_on_a_day_is_answered(mlflow_store: MlflowHook) -> None:
    """By the target or its slug: each version that served in the UTC day, and the entry that says why."""
    target, opened = ServingTarget("ml-serving", "Churn"), datetime(2026, 11, 29, 23, 30, tzinfo=timezone.utc)
    ledger = mlflow_store.ledger(lambda: opened + timedelta(minutes=2))
    ledger.open(LedgerEntry("r1", target.slug, "Churn", None, "7", 1, "airflow", "it passed", "runs:/x", opened))
    ledger.close("r1", "released", "verified", 1)

    (found,) = mlflow_store.served_on(target, date(2026, 11, 29))
    assert (found.version, found.until, found.entry.reason) == ("7", None, "it passed")
    assert mlflow_store.served_on(target.slug, date(2026, 12, 24)) == [found]
    assert mlflow_store.served_on(target, date(2026, 11, 28)) == []
    assert mlflow_store.served_on("staging/mlflow-serve", date(2026, 11, 29)) == []
