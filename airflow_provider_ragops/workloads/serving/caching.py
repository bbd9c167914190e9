"""What the RAG path needs of a cache, the one that caches nothing, and how a loaded version gets its own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from airflow_provider_ragops.workloads.serving.cache.settings import CacheSettings
    from airflow_provider_ragops.workloads.serving.cache.values import Decomposition
    from airflow_provider_ragops.workloads.serving.model import LoadedModel
    from airflow_provider_ragops.workloads.serving.settings import Settings

Build = Callable[[], Awaitable[Any]]


class Cache(Protocol):
    """Of one loaded version (``cache.version_cache``). Outcomes: those of ``cache.values``, and ``off``."""

    @property
    def version(self) -> str: ...
    def budget(self) -> Any: ...
    async def decomposition(
        self, customer_id: str | None, question: str, build: Build, *, budget: Any = None
    ) -> tuple[Decomposition, str]: ...
    async def hits(
        self, sub_queries: tuple[str, ...], search: Build, *, budget: Any = None
    ) -> tuple[Any, str]: ...
    async def claim(self) -> None: ...
    async def close(self) -> None: ...


Open = Callable[["Settings", "LoadedModel"], Cache]
"""Gives a loaded version its cache; called on the event loop, once per load."""


@dataclass(frozen=True)
class NoCache:
    """Builds everything anew."""

    version: str

    def budget(self) -> None:
        return None

    async def decomposition(
        self, _customer_id: str | None, _question: str, build: Build, *, budget: Any = None  # noqa: ARG002
    ) -> tuple[Decomposition, str]:
        return await build(), "off"

    async def hits(
        self, _sub_queries: tuple[str, ...], search: Build, *, budget: Any = None  # noqa: ARG002
    ) -> tuple[Any, str]:
        return await search(), "off"

    async def claim(self) -> None:
        return None

    async def close(self) -> None:
        return None


def without_cache(_: Settings, loaded: LoadedModel) -> Cache:
    return NoCache(loaded.version)


def in_redis(chosen: CacheSettings) -> Open:
    """The cache of a RAG model, where there is a Redis; other models have nothing to keep."""

    def opened(settings: Settings, loaded: LoadedModel) -> Cache:
        from airflow_provider_ragops.workloads.serving.cache.values import Identity
        from airflow_provider_ragops.workloads.serving.cache.version_cache import VersionCache

        if loaded.retriever is None or not chosen.server.host:
            return without_cache(settings, loaded)
        # The run that the registry names: a number alone may be another model's after a re-creation.
        identity = Identity(loaded.name, loaded.version, loaded.run_id, loaded.retriever.dimension)
        made: Cache = VersionCache.open(identity, chosen)
        return made

    return opened
