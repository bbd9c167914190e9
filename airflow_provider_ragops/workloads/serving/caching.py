"""What the RAG path needs of a cache, the one that caches nothing, and how a loaded version gets its own."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from airflow_provider_ragops.workloads.serving.model import LoadedModel
    from airflow_provider_ragops.workloads.serving.settings import Settings

log = logging.getLogger(__name__)

Build = Callable[[], Awaitable[Any]]


@dataclass(frozen=True)
class Decomposition:
    sub_queries: tuple[str, ...]
    vectors: Any


class Cache(Protocol):
    """Of one loaded version. Outcomes: hit, miss, mismatch, bypass; ``off`` where there is no cache."""

    @property
    def version(self) -> str: ...
    async def decomposition(
        self, customer_id: str | None, question: str, build: Build
    ) -> tuple[Decomposition, str]: ...
    async def hits(self, sub_queries: tuple[str, ...], build: Build) -> tuple[Any, str]: ...
    async def claim(self) -> None: ...
    async def close(self) -> None: ...


@dataclass(frozen=True)
class NoCache:
    """Builds everything anew."""

    version: str

    async def decomposition(self, customer_id: str | None, question: str, build: Build) -> tuple[Decomposition, str]:  # noqa: ARG002
        return await build(), "off"

    async def hits(self, sub_queries: tuple[str, ...], build: Build) -> tuple[Any, str]:  # noqa: ARG002
        return await build(), "off"

    async def claim(self) -> None:
        return None

    async def close(self) -> None:
        return None


def open_cache(settings: Settings, loaded: LoadedModel) -> Cache:
    """The cache of a RAG model, where the pod has a Redis; other models have nothing to cache."""
    if loaded.retriever is None or not settings.redis_url:
        return NoCache(loaded.version)
    raise NotImplementedError
