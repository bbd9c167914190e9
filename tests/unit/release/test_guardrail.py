"""What counts as a broken guardrail, and what one look leaves to the next."""

from __future__ import annotations

import json
import logging

import pytest
from prometheus_client import CollectorRegistry, Histogram, generate_latest

from airflow_provider_ragops.exceptions import (
    CacheKeyCollisionError,
    EmbeddingDimensionError,
    RagopsError,
    TokenizerError,
)
from airflow_provider_ragops.release.guardrail import (
    NEW_SECONDS,
    Breach,
    History,
    Latency,
    Limits,
    Seen,
    judge,
    latencies,
    traces,
)
from airflow_provider_ragops.workloads.serving.errors import code_of
from airflow_provider_ragops.workloads.serving.logs import JsonLines

NOW = 1_800_000_000.0
MINUTE = 60.0


@pytest.mark.parametrize("line", [
    "ERROR mlflow.pyfunc: Failed to decompose query: CacheKeyCollisionError: Duplicate cache entry",
    "Failed to decompose query: embedding dimension mismatch (expected 768, got 512)",
    '{"message": "answered", "code": "embedding_dimension_mismatch"}', '{"code": "tokenizer_mismatch"}',
    "loaded tokenizer vocab differs from expected version",
    '{"message": "loading failed", "exception": "exceptions.EmbeddingDimensionError: model M: expected 768"}',
    '{"message": "loading failed", "exception": "exceptions.TokenizerError: model M: expected 30522"}',
    '{"message": "no longer ready", "code": "cache_key_collision", "cause": "marker rag_meta:v2: expected model M"}',
])  # fmt: skip
def test_the_incidents_errors_are_seen(line: str) -> None:
    """C7: of the seed's log, and as the serving runtime's codes."""
    assert len(traces(f"all quiet\n{line}\nready\n")) == 1


@pytest.mark.parametrize("error", [CacheKeyCollisionError, EmbeddingDimensionError, TokenizerError])
def test_every_code_of_a_mix_up_is_seen_as_pods_write_it(error: type[RagopsError]) -> None:
    """C7: by its stable code, however the line is worded, and by its class in a traceback."""
    code = code_of(error("m", expected="a", seen="b", action="c")).code
    for extra in ({"code": code}, {"cause": f"{code}: of another version"}, {"exception": f"a\n{error.__name__}: m"}):
        record = logging.makeLogRecord({"msg": "no longer ready", "levelname": "ERROR", **extra})
        assert traces(JsonLines({"model_name": "M"}).format(record)) in ([code], [error.__name__])


@pytest.mark.parametrize("line", [
    "", "all quiet", '{"code": "model_version_not_found"}', "CacheKeyCollision", "dimension 768",
])  # fmt: skip
def test_other_lines_are_not(line: str) -> None:
    """C7: a client that pins a version which is not served is no trace of a mix-up."""
    assert traces(line) == []


def test_a_trace_says_nothing_of_the_caller() -> None:
    """The line may hold a customer's id or question; what is kept of it does not."""
    assert traces("CacheKeyCollisionError: key 'rag_decompose:customer_id=123'") == ["CacheKeyCollisionError"]


def test_latency_is_read_as_the_client_writes_it() -> None:
    """Sums and counts by version, whatever else is there; a version that answered nothing is there with nothing."""
    registry = CollectorRegistry()
    histogram = Histogram("mlflow_inference_latency_seconds", "x", ("model_name", "model_version"), registry=registry)
    for version, seconds in (("1", 0.5), ("1", 1.5), ("12", 0.25)):
        histogram.labels('a "model"', version).observe(seconds)
    histogram.labels("m", "")
    found = latencies(generate_latest(registry).decode())
    assert found == {"1": Latency(2, 2.0), "12": Latency(1, 0.25)}
    assert found["1"].mean == 1.0
    assert latencies("") == {}


def seen(**means: float) -> Seen:
    """One hundred answers of each version, as ``v1=0.2``."""
    return Seen(latency={name[1:]: Latency(100, mean * 100) for name, mean in means.items()})


def look(history: History, found: Seen, minute: float, limits: Limits | None = None) -> tuple[History, list[Breach]]:
    limits, now = limits or Limits(), NOW + minute * MINUTE
    after = History.of(json.loads(json.dumps(history.after(found, limits, now).as_dict())))  # as XCom keeps it
    return after, judge(found, after, limits, now)


def test_a_new_version_twice_as_slow_is_a_breach_for_an_hour() -> None:
    """From the first look that sees it, also once the old pods are gone, until it is what others are compared with."""
    history, found = look(History(), seen(v1=0.2), 0)
    assert found == []
    history, found = look(history, seen(v1=0.2, v2=0.5), 15)
    assert [(one.what, one.subject, one.seen, one.limit) for one in found] == [("latency", "2", 0.5, 0.4)]
    assert found[0].reason == (
        "version 2: 500 ms for an answer (100 answers); version 1 before it took 200 ms, the limit is 400 ms"
    )
    history, found = look(history, seen(v2=0.5), 60)
    assert [one.subject for one in found] == ["2"]
    history, found = look(history, seen(v2=0.5), 76)
    assert found == []
    assert history.settled == {"2": 0.5}
    assert look(history, seen(v2=0.5, v3=0.9), 90)[1] == []
    assert [one.subject for one in look(history, seen(v2=0.5, v3=1.1), 90)[1]] == ["3"]


@pytest.mark.parametrize(("before", "after"), [(0.2, 0.4), (0.01, 0.09), (0.2, 0.1)])
def test_a_little_slower_is_none(before: float, after: float) -> None:
    """Twice is allowed; and what nobody notices."""
    history, _ = look(History(), seen(v1=before), 0)
    assert look(history, seen(v1=before, v2=after), 15)[1] == []


def test_slowness_without_a_new_version_is_none() -> None:
    """A first look has nothing to compare with, and one version that becomes slow is another matter."""
    assert look(History(), seen(v1=9.0), 0)[1] == []
    history, _ = look(History(), seen(v1=0.2), 0)
    assert look(history, seen(v1=9.0), 15)[1] == []


def test_few_answers_say_nothing() -> None:
    """Neither as a baseline nor as a breach."""
    few = {"2": Latency(19, 19.0)}
    history, _ = look(History(), seen(v1=0.2), 0)
    assert look(history, Seen(latency={**seen(v1=0.2).latency, **few}), 15)[1] == []
    history, _ = look(History(), Seen(latency={"1": Latency(19, 0.19)}), 0)
    assert history.settled == {}
    assert look(history, seen(v2=0.9), 15)[1] == []


def test_a_look_that_sees_no_pod_forgets_nothing() -> None:
    """Every pod restarts at once: the versions are not new because of that."""
    history, _ = look(History(), seen(v1=0.2), 0)
    assert look(history, Seen(), 15)[0] == history


def test_traces_and_keys_are_breaches_with_numbers() -> None:
    """C7: each pod with its number of lines; each version with its number of keys, where a number is expected."""
    found = Seen(traces={"a": ["x", "y", "x"], "b": []}, keys={"1": 10, "2": 11})
    assert judge(found, History(), Limits(expected_keys=10), NOW) == [
        Breach("collision", "a", 3, 0, "pod a: 3 lines in its log tell of x, y"),
        Breach("keys", "2", 11, 10, "version 2: 11 keys in Redis, no more than 10 are expected"),
    ]
    assert [one.what for one in judge(found, History(), Limits(), NOW)] == ["collision"]


def test_pods_of_which_none_is_ready_are_a_breach() -> None:
    """C7: a tier that refuses to serve is no quiet one; one pod that serves is enough here, and so is no pod at all."""
    found = judge(Seen(ready={"b": False, "a": False}), History(), Limits(), NOW)
    assert found == [Breach("ready", "a, b", 0, 1, "none of 2 pods is ready: a, b")]
    assert judge(Seen(ready={"a": False, "b": True}), History(), Limits(), NOW) == []
    assert judge(Seen(), History(), Limits(), NOW) == []


def test_a_version_is_new_for_a_while() -> None:
    """The first look takes what is there for old, so that a schedule that begins today has a baseline today."""
    history, _ = look(History(), seen(v1=0.2), 0)
    assert history.first_seen == {"1": NOW - NEW_SECONDS}
    assert look(history, seen(v2=0.2), 15)[0].first_seen == {"2": NOW + 15 * MINUTE}
