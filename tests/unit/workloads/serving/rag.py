"""A small RAG model and a cache in memory, as the serving pod sees them."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from airflow_provider_ragops.workloads.serving.cache.values import Decomposition
from airflow_provider_ragops.workloads.serving.caching import Build
from airflow_provider_ragops.workloads.serving.model import LoadedModel

PASSAGES = ("Refunds take five days.", "Fees are listed yearly.", "Cards are sent by post.")


@dataclass
class Retriever:
    """Splits at "and", embeds by letters, searches three passages."""

    dimension: int = 26
    vocabulary_size: int = 100
    fingerprint: str = "abc"
    threads: set[str] = field(default_factory=set)
    searches: int = 0

    def decompose(self, question: str) -> tuple[str, ...]:
        self.threads.add(threading.current_thread().name)
        return tuple(part.strip() for part in question.split(" and ") if part.strip()) or (question,)

    def embed(self, texts: Sequence[str]) -> Any:
        import numpy as np

        self.threads.add(threading.current_thread().name)
        found = np.zeros((len(texts), self.dimension), dtype="float32")
        for place, text in enumerate(texts):
            for letter in text.lower():
                found[place, ord(letter) % self.dimension] += 1
        return found / np.maximum(np.linalg.norm(found, axis=1, keepdims=True), 1)

    def search(self, vectors: Any, k: int = 5) -> Any:
        import numpy as np

        self.searches += 1
        scores = vectors @ self.embed(PASSAGES).T
        best = np.argsort(-scores, axis=1)[:, :k]
        return tuple(tuple(SimpleNamespace(passage=str(place), score=float(row[place])) for place in order)
                     for row, order in zip(scores, best, strict=True))

    def compose(self, question: str, sub_queries: Sequence[str], hits: Any) -> Any:
        first = [found[0] for found in hits]
        sources = tuple(
            SimpleNamespace(id=hit.passage, title=f"Passage {hit.passage}", score=hit.score) for hit in first
        )
        return SimpleNamespace(text=" ".join(PASSAGES[int(hit.passage)] for hit in first), sources=sources)

    def check(self) -> None:
        return None


def a_pyfunc(retriever: Any, **metadata: Any) -> Any:
    """With the metadata that the retriever has, but for what is given."""
    told = {
        "ragops.kind": "rag-retriever", "dimension": retriever.dimension,
        "vocabulary_size": retriever.vocabulary_size, "embedder_fingerprint": retriever.fingerprint,
    } | metadata
    described = SimpleNamespace(get_input_schema=lambda: None, get_params_schema=lambda: None, metadata=told)
    return SimpleNamespace(
        metadata=described, unwrap_python_model=lambda: SimpleNamespace(retriever=retriever),
        predict=lambda data, params=None: [str(data)],
    )


def a_model(retriever: Any = None, name: str = "rag-retriever", version: str = "3", **metadata: Any) -> LoadedModel:
    return LoadedModel.of(name, version, a_pyfunc(retriever or Retriever(), **metadata), run_id="r1")


@dataclass
class MemoryCache:
    """Keeps what it was given; ``refusal`` is what :meth:`claim` raises."""

    version: str = "3"
    refusal: Exception | None = None
    kept: dict[Any, Any] = field(default_factory=dict)
    claims: int = 0
    closed: bool = False

    def budget(self) -> None:
        return None

    async def decomposition(
        self, customer_id: str | None, question: str, build: Build, *, budget: Any = None
    ) -> tuple[Decomposition, str]:
        if customer_id is None:
            return await build(), "bypass"
        return await self._kept((customer_id, question), build)

    async def hits(self, sub_queries: tuple[str, ...], search: Build, *, budget: Any = None) -> tuple[Any, str]:
        return await self._kept(sub_queries, search)

    async def _kept(self, key: Any, build: Build) -> tuple[Any, str]:
        if key in self.kept:
            return self.kept[key], "hit"
        self.kept[key] = await build()
        return self.kept[key], "miss"

    async def claim(self) -> None:
        self.claims += 1
        if self.refusal is not None:
            raise self.refusal

    async def close(self) -> None:
        self.closed = True
