"""What the RAG path needs of a cache, and the one that caches nothing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from airflow_provider_ragops.workloads.serving.model import LoadedModel
    from airflow_provider_ragops.workloads.serving.settings import Settings

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


Open = Callable[["Settings", "LoadedModel"], Cache]
"""Gives a loaded version its cache; called on the event loop, once per load."""


def without_cache(_: Settings, loaded: LoadedModel) -> Cache:
    return NoCache(loaded.version)
