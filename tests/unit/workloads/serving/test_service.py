"""The service without HTTP: every refusal with its code, and the limits."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_ragops.exceptions import InvalidInputError
from airflow_provider_ragops.workloads.serving.answer import Answer
from airflow_provider_ragops.workloads.serving.metrics import Metrics
from airflow_provider_ragops.workloads.serving.service import Invocation, Service, pseudonym
from airflow_provider_ragops.workloads.serving.settings import Limits, Settings
from airflow_provider_ragops.workloads.serving.state import ServingState
from airflow_provider_ragops.workloads.serving.workers import Workers

from .rag import MemoryCache, a_model

ROW = Invocation(b'{"dataframe_records": [{"a": 1}]}')


def a_service(loaded: Any, ready: bool = True, limits: Limits | None = None, **settings: Any) -> Service:
    limits = limits or Limits()
    state = ServingState.of(Settings("M", "3", "http://unused", Path("unused"), limits, **settings))
    state.cache = MemoryCache()
    if ready:
        state.serves(loaded, "loaded")
    return Service(state, Metrics(), Workers(limits.concurrency, limits.queue))


def model(answer: Callable[[bytes, str], Answer]) -> Any:
    return SimpleNamespace(name="M", version="3", retriever=None, answer=answer, subject="model M version 3")


def told(answer: Answer) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(answer.body)
    return {"status": answer.status, **found}


def answer(service: Service, asked: Invocation) -> Answer:
    async def run() -> Answer:
        return await service.answer(asked)

    return asyncio.run(run())


GOOD = model(lambda body, kind: Answer('{"predictions": [1]}'))


@pytest.mark.parametrize("asked", [
    ROW, Invocation(ROW.body, model_name="M"), Invocation(ROW.body, model_version="3"),
    Invocation(ROW.body, model_name="M", model_version="3"),
])
def test_no_version_or_the_served_one_is_answered(asked: Invocation) -> None:
    """R5: a request that names no version is answered whichever version this pod serves."""
    assert answer(a_service(GOOD), asked).status == 200


@pytest.mark.parametrize(("name", "version"), [(None, "4"), ("Other", None), ("Other", "3"), (None, "03")])
def test_another_version_is_a_conflict_that_names_both(name: str | None, version: str | None) -> None:
    """M3: 409 with the asked and the served version as fields, so that a client can retry or give up."""
    seen = told(answer(a_service(GOOD), Invocation(ROW.body, model_name=name, model_version=version)))
    assert (seen["status"], seen["code"], seen["error_code"]) == (409, "model_version_not_found", "RESOURCE_CONFLICT")
    assert (seen["model_name"], seen["model_version"]) == ("M", "3")
    assert (seen["requested_model_name"], seen["requested_model_version"]) == (name or "M", version or "")


def test_before_ready_there_is_no_answer() -> None:
    """503 with the reason, also for a pinned version."""
    seen = told(answer(a_service(GOOD, ready=False), Invocation(ROW.body, model_version="4")))
    assert (seen["status"], seen["code"]) == (503, "not_ready")
    assert "loading" in seen["message"]


def test_a_bug_is_told_by_kind_only(caplog: pytest.LogCaptureFixture) -> None:
    """500 without the error's text, which may hold data or credentials; the log has kind and place, no text either."""

    def broken(body: bytes, kind: str) -> Answer:
        raise KeyError("canary")

    with caplog.at_level("INFO"):
        seen = told(answer(a_service(model(broken)), ROW))
    assert (seen["status"], seen["code"], seen["error_code"]) == (500, "internal_error", "INTERNAL_ERROR")
    assert "canary" not in str(seen)
    assert not [record for record in caplog.records if "canary" in str(vars(record))]
    assert any("KeyError" in str(vars(record)) and "broken" in str(vars(record)) for record in caplog.records)


def test_an_answer_that_takes_too_long_is_given_up() -> None:
    """504 in time; the thread keeps its place until its call ends, so threads do not pile up."""
    gate = Event()

    def slow(body: bytes, kind: str) -> Answer:
        gate.wait(30)
        return Answer("{}")

    service = a_service(model(slow), limits=Limits(concurrency=1, queue=1, request_seconds=1))

    async def run() -> list[Answer]:
        return await asyncio.gather(*(service.answer(ROW) for _ in range(3)))

    started = time.monotonic()
    first, second, third = asyncio.run(run())
    assert time.monotonic() - started < 5
    assert [told(each)["code"] for each in (first, second)] == ["timeout", "timeout"]
    assert (first.status, third.status) == (504, 429)
    assert told(third)["code"] == "overloaded"
    assert third.headers["retry-after"] == "1"
    assert told(answer(service, ROW))["code"] == "overloaded"  # both places are still taken
    gate.set()


def test_requests_beyond_the_queue_are_refused_while_they_only_wait_for_the_cache() -> None:
    """The limit counts requests, whatever they wait for; it is free again afterwards."""

    class Slow(MemoryCache):
        async def decomposition(self, *asked: Any, **more: Any) -> Any:
            await asyncio.sleep(0.1)
            return await super().decomposition(*asked, **more)

    service = a_service(a_model(name="M"), limits=Limits(concurrency=1, queue=1))
    service.state.cache = Slow()
    asked = Invocation(b'{"queries": ["refunds"]}')

    async def run() -> list[int]:
        return [each.status for each in await asyncio.gather(*(service.answer(asked) for _ in range(3)))]

    assert asyncio.run(run()) == [200, 200, 429]
    assert answer(service, asked).status == 200


def test_a_body_over_the_limit_is_refused_without_being_read() -> None:
    """413 that names the limit and the setting."""
    service = a_service(model(lambda body, kind: pytest.fail("read")), limits=Limits(body_bytes=10))
    seen = told(answer(service, ROW))
    assert (seen["status"], seen["code"]) == (413, "too_large")
    assert "SERVING_MAX_BODY_BYTES" in seen["message"]


def test_questions_go_through_the_cache_and_are_counted() -> None:
    """The outcome of each look is in the metrics, by layer."""
    service = a_service(a_model(name="M"))
    asked = Invocation(json.dumps({"queries": ["refunds and fees"], "customer_id": 7}).encode())

    async def run() -> list[Answer]:
        return [await service.answer(asked) for _ in range(3)]

    assert [each.status for each in asyncio.run(run())] == [200] * 3
    text = service.metrics.render(service.state.health, {}).decode()
    labels = 'mlflow_serving_cache_total{layer="decomposition",model_name="M",model_version="3"'
    assert f'{labels},outcome="miss"}} 1.0' in text
    assert f'{labels},outcome="hit"}} 2.0' in text
    assert "mlflow_inference_in_flight 0.0" in text


def test_a_customer_is_in_the_log_by_pseudonym_only(caplog: pytest.LogCaptureFixture) -> None:
    """The same for every request of the customer, another with another key, and never the id or the question."""
    service = a_service(a_model(name="M"), log_key="salt")
    with caplog.at_level("INFO"):
        answer(service, Invocation(b'{"queries": ["canary question"], "customer_id": "canary-77"}'))
    (line,) = [record for record in caplog.records if record.getMessage() == "answered"]
    assert line.customer == pseudonym("salt", "canary-77") != pseudonym("other", "canary-77")
    assert "canary" not in str(vars(line))


def test_mlflows_formats_of_a_rag_model_go_to_its_predict() -> None:
    """What MLflow's own clients send is answered as MLflow's server does, without the cache."""
    service = a_service(a_model(name="M"))
    seen = told(answer(service, Invocation(b'{"inputs": ["refunds"]}')))
    assert seen["predictions"] == ["['refunds']"]
    assert seen["metadata"] == {"model_name": "M", "model_version": "3"}


def test_a_refusal_is_counted_by_code() -> None:
    """Errors are told apart in the metrics by stable code; only good answers go into the latency."""

    def refused(body: bytes, kind: str) -> Answer:
        raise InvalidInputError("M", expected="x", seen="y", action="z")

    service = a_service(model(refused))
    answer(service, ROW)
    text = service.metrics.render(service.state.health, {}).decode()
    assert 'mlflow_inference_errors_total{code="invalid_input",model_name="M",model_version="3"} 1.0' in text
    assert "mlflow_inference_latency_seconds_count{" not in text
