"""The HTTP side: bodies that are too large, too slow or cut; Connection: close while the process drains."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from airflow_provider_ragops.workloads.serving.app import create_app
from airflow_provider_ragops.workloads.serving.model import LoadedModel
from airflow_provider_ragops.workloads.serving.settings import Limits, Settings

from .conftest import listening, wait_until
from .rag import MemoryCache, a_model

LIMITS = Limits(request_seconds=2, body_bytes=200_000, queries=3, query_characters=1000)
ROWS = {"dataframe_records": [{"a": 1.0, "b": 2.0, "c": 3.0}]}


@pytest.fixture
def rag(tmp_path: Any) -> Iterator[Any]:
    app = create_app(
        Settings("rag-retriever", "3", "http://unused", tmp_path, LIMITS), lambda _: a_model(),
        opened=lambda settings, loaded: MemoryCache(),
    )
    with listening(app) as client:
        wait_until(lambda: client.get("/health").status_code == 200)
        yield app, client


@pytest.fixture
def tabular(tmp_path: Any) -> Iterator[httpx.Client]:
    from .formats.conftest import a_pyfunc

    settings = Settings("M", "3", "http://unused", tmp_path, LIMITS)
    with listening(create_app(settings, lambda _: LoadedModel.of("M", "3", a_pyfunc("doubles")))) as client:
        wait_until(lambda: client.get("/health").status_code == 200)
        yield client


def connection(client: httpx.Client) -> socket.socket:
    made = socket.create_connection((client.base_url.host, client.base_url.port), timeout=10)
    made.settimeout(10)
    return made


@pytest.mark.parametrize(("body", "status", "code"), [
    (b'{"queries": ["refunds"]}', 200, None),
    ('{"queries": ["返金 🙂 Gebühr"], "customer_id": "Müller 🙂"}'.encode(), 200, None),
    (b'{"queries": []}', 400, "invalid_input"),
    (b'{"queries": [NaN]}', 400, "invalid_input"),
    (b'{"queries": Infinity}', 400, "invalid_input"),
    (b'{"queries": ["\\ud800"]}', 400, "invalid_input"),
    (b'{"queries": ["\xed\xa0\x80"]}', 400, "invalid_input"),
    (b'{"queries": ["refunds"], "\\udcff": 1}', 400, "invalid_input"),
    (b"[" * 100_000, 400, "invalid_input"),
    (b'{"queries": ' + b"9" * 10_000 + b"}", 400, "invalid_input"),
    (json.dumps({"queries": ["word " * 20_000]}).encode(), 413, "too_large"),
    (json.dumps({"queries": ["word"] * 4}).encode(), 413, "too_large"),
    (b'{"queries": ["' + b"x" * 10_000_000 + b'"]}', 413, "too_large"),
    (b"", 400, "invalid_input"),
    (b'{"dataframe_records": [{"query": "a"}]}', 200, None),
])
def test_no_body_makes_the_server_fail(rag: Any, body: bytes, status: int, code: str | None) -> None:
    """Each is answered or refused with its code, as JSON; the pod stays ready."""
    _, client = rag
    seen = client.post("/invocations", content=body, headers={"content-type": "application/json"})
    assert (seen.status_code, seen.json().get("code")) == (status, code)
    assert client.get("/health").status_code == 200


@pytest.mark.parametrize("kind", ["text/plain", "application/xml", "application/vnd.apache.parquet", "", "\xff", None])
def test_other_content_types_are_refused(rag: Any, kind: str | None) -> None:
    """415 with its code."""
    _, client = rag
    headers = {} if kind is None else {"content-type": kind.encode("latin-1")}
    seen = client.post("/invocations", content=b"x", headers=headers)
    assert (seen.status_code, seen.json()["code"]) == (415, "unsupported_content_type")


@pytest.mark.parametrize(("rows", "columns"), [
    ([{"a": 1.0}], ["b", "c"]), ([{"a": "much", "b": 1, "c": 2}], ["a"]), ([{"a": [1], "b": {}, "c": 2}], ["a", "b"]),
])
@pytest.mark.parametrize("form", ["dataframe_records", "instances"])
def test_a_signature_violation_names_the_columns(
    tabular: httpx.Client, rows: list[Any], columns: list[str], form: str
) -> None:
    """400 with the columns as a field, and in the message what each must be; the values are not repeated."""
    seen = tabular.post("/invocations", json={form: rows})
    assert (seen.status_code, seen.json()["code"]) == (400, "signature_violation")
    assert seen.json()["columns"] == columns
    assert all(repr(name) in seen.json()["message"] for name in columns)
    assert "much" not in seen.text


def test_a_body_in_parts_is_put_together(tabular: httpx.Client) -> None:
    """Chunked, and larger than one read."""
    rows = {"dataframe_records": ROWS["dataframe_records"] * 2000}
    whole = json.dumps(rows).encode()
    parts = (whole[start:start + 1000] for start in range(0, len(whole), 1000))
    seen = tabular.post("/invocations", content=parts, headers={"content-type": "application/json"})
    assert seen.status_code == 200
    assert len(seen.json()["predictions"][0]["index"]) == 2000


@pytest.mark.parametrize("part", [b"", b"{"])
def test_a_body_that_does_not_arrive_is_given_up(tabular: httpx.Client, part: bytes) -> None:
    """408 after the time limit, and the connection is closed; others are answered meanwhile."""
    with connection(tabular) as slow:
        slow.sendall(b"POST /invocations HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n" + part)
        assert tabular.post("/invocations", json=ROWS).status_code == 200
        started = time.monotonic()
        seen = slow.recv(65536)
        assert b" 408 " in seen.splitlines()[0]
        assert b"connection: close" in seen.lower()
        assert time.monotonic() - started < 5


def test_a_caller_that_goes_away_is_no_error(tabular: httpx.Client, caplog: pytest.LogCaptureFixture) -> None:
    """Half a body and a closed connection: nobody to answer, nothing in the log, and the next one is answered."""
    with connection(tabular) as gone:
        gone.sendall(b"POST /invocations HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
    assert tabular.post("/invocations", json=ROWS).status_code == 200
    assert not [record for record in caplog.records if record.levelname in ("ERROR", "CRITICAL")]


def test_while_it_drains_every_answer_closes_its_connection(rag: Any) -> None:
    """R5: not ready any more, and still answered, on the same connection, with Connection: close."""
    app, client = rag
    assert "connection" not in client.post("/invocations", json={"queries": ["refunds"]}).headers
    app.state.serving.draining = True
    health = client.get("/health", params={"model_version": "3"})
    assert (health.status_code, health.json()["status"]) == (503, "stopping")
    assert client.get("/health/live").status_code == 200
    asked = [client.post("/invocations", json=body) for body in ({"queries": ["refunds"]}, {})]
    for seen in (*asked, health):
        assert seen.headers["connection"] == "close"
    assert client.post("/invocations", json={"queries": ["refunds"]}).status_code == 200


def test_the_methods_and_paths_that_are_not_there(rag: Any) -> None:
    """404 and 405 as anywhere, without a stack trace."""
    _, client = rag
    assert client.get("/invocations").status_code == 405
    assert client.get("/nowhere").status_code == 404


def test_versions_and_model_info(rag: Any) -> None:
    """Which model, which software; the model's metadata as one metric."""
    _, client = rag
    seen = client.get("/version").json()
    assert (seen["model_name"], seen["model_version"]) == ("rag-retriever", "3")
    assert seen["mlflow"]
    text = client.get("/metrics").text
    assert 'dimension="26"' in text
    assert 'run_id="r1"' in text
