"""Serving apps of RAG models, two versions and two models of them, on one real Redis that also goes away."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from airflow_provider_ragops.contract import marker_key
from airflow_provider_ragops.workloads.serving.app import create_app
from airflow_provider_ragops.workloads.serving.cache.settings import CacheSettings
from airflow_provider_ragops.workloads.serving.caching import in_redis
from airflow_provider_ragops.workloads.serving.model import LoadedModel
from airflow_provider_ragops.workloads.serving.settings import Settings
from tests.own_redis import OwnRedis, own_redis
from tests.unit.workloads.serving.conftest import NOT_OURS, listening, wait_until
from tests.unit.workloads.serving.rag import Retriever, a_pyfunc

__all__ = ["own_redis"]

pytestmark = [pytest.mark.filterwarnings(line) for line in NOT_OURS]

QUESTION = {"queries": ["refunds and fees"], "customer_id": 123}
ANSWER = "Refunds take five days. Fees are listed yearly."


@contextmanager
def serving(
    redis: OwnRedis, version: str = "1", *, dimension: int = 512, model: str = "rag-retriever", run: str = "r1"
) -> Iterator[httpx.Client]:
    """A pod: an app of one version whose retriever has that dimension, asked when its loading has settled."""
    chosen = CacheSettings.from_environ({"REDIS_URL": redis.url, "REDIS_MAY_EVICT": "true"})
    chosen = replace(chosen, limits=replace(chosen.limits, reclaim=1.0))  # of a marker that went missing
    loaded = LoadedModel.of(model, version, a_pyfunc(Retriever(dimension)), run)
    pinned = Settings(model, version, "http://unused", Path("unused"))
    app = create_app(pinned, lambda _: loaded, opened=in_redis(chosen))
    with listening(app) as client:
        wait_until(lambda: client.get("/health").json()["status"] != "loading")
        yield client


def ask(client: httpx.Client, **query: str) -> tuple[int, str, list[str]]:
    seen = client.post("/invocations", json=QUESTION, params=query)
    if seen.status_code != 200:
        return seen.status_code, seen.json()["code"], []
    told = seen.json()
    cache = told["metadata"]["cache"]
    return 200, told["answers"][0]["text"], [*cache["decomposition"], *cache["hits"]]


def test_two_versions_side_by_side_never_meet(own_redis: Callable[..., OwnRedis], evidence: Counter[str]) -> None:
    """C7: dimensions 512 and 768, one Redis, the same customer and question in turn: each finds its own values."""
    redis = own_redis()
    with serving(redis, "1", dimension=512) as old, serving(redis, "2", dimension=768) as new:
        for expected in ("miss", "hit", "hit"):
            for client in (old, new):
                assert ask(client) == (200, ANSWER, [expected, expected])
                evidence["requests"] += 1
        assert ask(old, model_version="2")[:2] == (409, "model_version_not_found")
        assert ask(new, model_version="2")[0] == 200
        for client, version in ((old, "1"), (new, "2")):
            health = client.get("/health", params={"model_version": version})
            assert (health.status_code, health.json()["checks"]["marker"]) == (200, "ours")
            assert 'outcome="mismatch"' not in client.get("/metrics").text
        with redis.client() as direct:
            keys = sorted(key.decode() for key in direct.scan_iter("*"))
            assert direct.hget(marker_key("", "2"), "dimension") == b"768"
            assert all(direct.ttl(key) > 0 for key in keys)
        assert {key.partition(":")[2].partition(":")[0] for key in keys} == {"v1", "v2"}


def test_a_second_pod_of_the_version_finds_what_the_first_one_kept(own_redis: Callable[..., OwnRedis]) -> None:
    """Pods of one version share their values."""
    redis = own_redis()
    with serving(redis) as first, serving(redis) as second:
        assert ask(first) == (200, ANSWER, ["miss", "miss"])
        assert ask(second) == (200, ANSWER, ["hit", "hit"])


@pytest.mark.parametrize("other", [{"model": "other"}, {"run": "r2"}, {"dimension": 768}])
def test_another_model_with_the_same_number_never_becomes_ready(
    own_redis: Callable[..., OwnRedis], other: dict[str, Any]
) -> None:
    """M7: two models on one Redis, or a model that was deleted and registered again: the second one's pod is refused
    with the code, and the first one goes on with its own values."""
    redis = own_redis()
    with serving(redis) as first:
        assert ask(first)[0] == 200
        with serving(redis, **other) as second:
            health = second.get("/health").json()
            assert (health["status"], health["code"]) == ("failed", "cache_key_collision")
            assert ask(second)[:2] == (503, "not_ready")
        assert ask(first) == (200, ANSWER, ["hit", "hit"])
        assert first.get("/health").status_code == 200


def test_without_redis_the_pod_starts_and_answers(own_redis: Callable[..., OwnRedis]) -> None:
    """C9: Redis is gone before the pod starts: ready, and every answer without the cache."""
    redis = own_redis()
    redis.background.stop(redis.service.name)
    with serving(redis) as client:
        assert client.get("/health").json()["checks"]["marker"] == "unavailable"
        assert ask(client) == (200, ANSWER, ["bypass", "bypass"])


def test_a_redis_that_hangs_dies_and_comes_back_costs_no_answer(
    own_redis: Callable[..., OwnRedis], evidence: Counter[str]
) -> None:
    """C9: under load Redis hangs, ends, comes back empty: every request gets the right answer within a second, and
    the cache is used again."""
    redis = own_redis()
    with serving(redis) as client, ThreadPoolExecutor(4) as pool:
        assert ask(client)[0] == 200

        def load(seconds: float) -> None:
            ends = time.monotonic() + seconds
            while time.monotonic() < ends:
                started = time.monotonic()
                answers = list(pool.map(lambda _: ask(client)[:2], range(8)))
                assert set(answers) == {(200, ANSWER)}
                assert time.monotonic() - started < 5
                evidence["requests"] += len(answers)

        with redis.frozen():
            load(1.5)
        load(0.5)
        redis.background.stop(redis.service.name)
        load(1.0)
        assert ask(client)[2] == ["bypass", "bypass"]
        redis.start()
        wait_until(lambda: ask(client)[2] == ["hit", "hit"], 60)
        assert client.get("/health").status_code == 200
