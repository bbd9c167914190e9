"""What must agree before a pod is ready."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ragops.exceptions import (
    CacheUnavailableError,
    EmbeddingDimensionError,
    RegistryError,
    TokenizerError,
)
from airflow_provider_ragops.workloads.serving.checks import check_files, check_retriever, metadata_of
from airflow_provider_ragops.workloads.serving.readiness import attach, watch_marker
from airflow_provider_ragops.workloads.serving.service import Service
from airflow_provider_ragops.workloads.serving.settings import Settings

from .rag import MemoryCache, Retriever, a_model
from .test_service import a_service

FOREIGN = RegistryError("marker rag_meta:v3", expected="run r1", seen="run r9", action="Clean up.")
DOWN = CacheUnavailableError("Redis", expected="an answer", seen="none", action="Start it.")
SETTINGS = Settings("M", "3", "http://unused", Path("unused"))


@pytest.mark.parametrize(("told", "error", "named"), [
    ({"dimension": 768}, EmbeddingDimensionError, "dimension 768"),
    ({"dimension": None}, EmbeddingDimensionError, "dimension None"),
    ({"vocabulary_size": 30_522}, TokenizerError, "vocabulary_size 30522"),
    ({"embedder_fingerprint": "other"}, TokenizerError, "embedder_fingerprint 'other'"),
])
def test_a_model_whose_parts_are_not_its_metadatas_never_becomes_ready(
    told: dict[str, Any], error: type[Exception], named: str
) -> None:
    """M3: the tokenizer's vocabulary, the store's dimension and the embedder are those that were registered."""
    loaded = a_model(**told)
    with pytest.raises(error, match=named):
        check_retriever("model M version 3", loaded.retriever, metadata_of(loaded.pyfunc))  # type: ignore[arg-type]


def test_the_parts_are_checked_among_themselves() -> None:
    """M3: what the retriever finds wrong with itself keeps the pod from being ready."""

    class Broken(Retriever):
        def check(self) -> None:
            raise TokenizerError("tokenizer", expected="100 words", seen="99", action="Train again.")

    with pytest.raises(TokenizerError, match="saw 99"):
        asyncio.run(attach(a_service(None, ready=False), a_model(Broken(), name="M")))


@pytest.mark.parametrize("note", ["model_name: M\nmodel_version: '4'\n", "model_name: Other\nmodel_version: '3'\n"])
def test_files_of_another_version_are_refused(tmp_path: Path, note: str) -> None:
    """M3: MLflow notes beside the files whose they are; another version's, left in the cache, are not loaded."""
    check_files(SETTINGS, tmp_path)
    (tmp_path / "registered_model_meta").write_text("model_name: M\nmodel_version: '3'\n")
    check_files(SETTINGS, tmp_path)
    (tmp_path / "registered_model_meta").write_text(note)
    with pytest.raises(RegistryError, match="expected the files of that version"):
        check_files(SETTINGS, tmp_path)


def attached(cache: MemoryCache, service: Service | None = None) -> dict[str, str]:
    service = service or a_service(None, ready=False)
    return asyncio.run(attach(service, a_model(name="M"), lambda settings, loaded: cache))


def test_ready_means_that_everything_agreed() -> None:
    """The checks are named; the marker is claimed; a question was answered through the cache."""
    cache = MemoryCache()
    assert attached(cache) == {
        "dimension": "26", "vocabulary_size": "100", "embedder_fingerprint": "abc", "marker": "ours",
    }
    assert (cache.claims, cache.closed) == (1, False)
    assert cache.kept


def test_a_marker_of_another_model_keeps_the_pod_from_being_ready() -> None:
    """M7: the keys of this number are another model's or run's: refused, and the connection is closed."""
    cache = MemoryCache(refusal=FOREIGN)
    with pytest.raises(RegistryError, match="saw run r9"):
        attached(cache)
    assert cache.closed


def test_keys_of_another_version_keep_the_pod_from_being_ready() -> None:
    """M3: pinned version, loaded version and the version in the keys are one."""
    with pytest.raises(RegistryError, match="loaded version 3, keys of version 4"):
        attached(MemoryCache(version="4"))
    service = a_service(None, ready=False)
    service.state.settings = replace(service.state.settings, model_version="2")
    with pytest.raises(RegistryError, match="expected version 2"):
        attached(MemoryCache(), service)


def test_a_redis_that_is_down_does_not_keep_the_pod_from_being_ready() -> None:
    """C9: the pod answers without a cache; the check says so."""
    assert attached(MemoryCache(refusal=DOWN))["marker"] == "unavailable"


def test_a_marker_that_changes_hands_ends_readiness_until_it_is_ours_again() -> None:
    """M7: the marker is claimed again and again; another's: not ready, with the reason; ours again: ready."""
    service = a_service(a_model(name="M"))
    cache = service.state.cache = MemoryCache()
    seen: list[tuple[str, str]] = []
    refusals: list[Exception | None] = [None, DOWN, RuntimeError("a bug"), FOREIGN, None]

    async def sleep(seconds: float) -> None:
        seen.append((service.state.health.status, service.state.health.checks.get("marker", "")))
        if not refusals:
            raise asyncio.CancelledError
        cache.refusal = refusals.pop(0)

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(watch_marker(service.state, sleep))
    assert seen == [("ready", ""), ("ready", "ours"), ("ready", "unavailable"), ("ready", "unavailable"),
                    ("failed", ""), ("ready", "ours")]
