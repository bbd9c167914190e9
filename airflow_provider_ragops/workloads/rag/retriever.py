"""The retriever of one version: what the serving pod calls. CPU only, thread-safe, no network.

All of its parts are one version's and it holds them itself: nothing here is shared between versions except the base
encoder of the image, which is read only and whose fingerprint each version checks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from airflow_provider_ragops.exceptions import EmbeddingDimensionError, EncoderError, RagopsError, TokenizerError
from airflow_provider_ragops.workloads.rag import answering, decomposition
from airflow_provider_ragops.workloads.rag.manifest import Manifest
from airflow_provider_ragops.workloads.rag.store import Hit, PassageStore

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from airflow_provider_ragops.workloads.rag.embedder import Embedder

__all__ = ["Answer", "Hit", "RagRetriever", "Source"]

HITS = 5
_PROBE = "What is the policy for overseas transfers?"
_ACTION = "The parts are not of one version: download the version's files again, or train another version."


@dataclass(frozen=True)
class Source:
    """``score``: the best cosine of the passage with a sub-query."""

    id: str
    title: str
    score: float


@dataclass(frozen=True)
class Answer:
    text: str
    sources: tuple[Source, ...]


class RagRetriever:
    """Decompose, embed, search, compose. The attributes are those of the parts, not of what was written about them."""

    def __init__(self, embedder: Embedder, store: PassageStore, manifest: Manifest) -> None:
        self.embedder = embedder
        self.store = store
        self.manifest = manifest
        self.dimension = embedder.dimension
        self.vocabulary_size = embedder.tokenizer.vocabulary_size
        self.fingerprint = embedder.fingerprint

    def decompose(self, question: str) -> tuple[str, ...]:
        """The sub-queries of a question, at least one."""
        return decomposition.decompose(question)

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Unit rows, (texts, dimension)."""
        return self.embedder.embed(texts)

    def search(self, vectors: Any, k: int = HITS) -> tuple[tuple[Hit, ...], ...]:
        """The nearest passages of each row, in one matrix product; raises what :meth:`PassageStore.search` raises."""
        return self.store.search(vectors, k)

    def compose(self, question: str, sub_queries: Sequence[str], hits: Sequence[Sequence[Hit]]) -> Answer:  # noqa: ARG002
        """Answer each sub-query from its best passage, no sentence twice.

        :raises DataError: when a hit names a passage that this version does not hold.
        """
        said: dict[str, None] = {}
        scores: dict[str, float] = {}
        for sub_query, found in zip(sub_queries, hits, strict=True):
            for hit in found[:1]:
                passage = self.store.passage(hit.passage)
                said.update(dict.fromkeys(answering.best_sentences(sub_query, passage, self._weights)))
                scores[hit.passage] = max(hit.score, scores.get(hit.passage, hit.score))
        sources = tuple(Source(name, self.store.passage(name).title, score) for name, score in scores.items())
        return Answer(" ".join(said), sources)

    def answer(self, question: str) -> Answer:
        """All of it, without a cache."""
        sub_queries = self.decompose(question)
        return self.compose(question, sub_queries, self.search(self.embed(sub_queries)))

    def check(self, metadata: Mapping[str, Any] | None = None) -> None:
        """Compare the parts with one another and with what the version says about itself.

        :param metadata: that of MLflow's model; default: the manifest among the version's own files.
        :raises TokenizerError: another vocabulary, or another tokenizer of the same size.
        :raises EmbeddingDimensionError: vectors of another dimension in the store, or out of the head.
        :raises EncoderError: another base encoder, or another head, than the version was made with.
        """
        told = self.manifest.metadata if metadata is None else metadata
        tokenizer, encoder = self.embedder.tokenizer, self.embedder.encoder
        _same(TokenizerError, "tokenizer's vocabulary", told.get("vocabulary_size"), self.vocabulary_size)
        _same(TokenizerError, "tokenizer", told.get("tokenizer"), tokenizer.digest)
        _same(EmbeddingDimensionError, "dimension of the head", told.get("dimension"), self.dimension)
        _same(EmbeddingDimensionError, "dimension of the store", told.get("dimension"), self.store.dimension)
        _same(EmbeddingDimensionError, "dimension of an embedding", self.dimension, self.embed([_PROBE]).shape[1])
        _same(EncoderError, "base encoder's fingerprint", told.get("base_encoder"), encoder.fingerprint)
        _same(EncoderError, "embedder's fingerprint", told.get("embedder_fingerprint"), self.fingerprint)

    @cached_property
    def _weights(self) -> answering.Weights:
        return answering.Weights.of(self.store.passages)


def _same(kind: type[RagopsError], subject: str, expected: Any, seen: Any) -> None:
    if expected != seen:
        raise kind(subject, expected=f"{expected}, as the version's metadata says", seen=str(seen), action=_ACTION)
