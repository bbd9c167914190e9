"""The passages of one version and their vectors; the search is one matrix product for all sub-queries."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from airflow_provider_ragops.exceptions import DataError, EmbeddingDimensionError, ModelFilesError

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Passage:
    id: str
    title: str
    text: str


@dataclass(frozen=True)
class Hit:
    """``score`` is the cosine of sub-query and passage."""

    passage: str
    score: float


@dataclass(frozen=True)
class PassageStore:
    """``vectors``: unit rows in the order of the passages."""

    passages: tuple[Passage, ...]
    vectors: NDArray[np.float32]

    def __post_init__(self) -> None:
        if len(self.passages) != len(self.vectors) or len(self._places) != len(self.passages) or not self.passages:
            raise ModelFilesError(
                "passages", expected="a vector for each passage, and each id once",
                seen=f"{len(self.passages)} passages with {len(self._places)} ids, {len(self.vectors)} vectors",
                action="The files are not of one version: download them again, or train another version.",
            )

    @property
    def dimension(self) -> int:
        return int(self.vectors.shape[1])

    @cached_property
    def _places(self) -> dict[str, int]:
        return {passage.id: place for place, passage in enumerate(self.passages)}

    def passage(self, passage_id: str) -> Passage:
        """:raises DataError: when there is no such passage: the hit is another version's."""
        if (place := self._places.get(passage_id)) is None:
            raise DataError(
                f"passage {passage_id!r}", expected=f"one of the {len(self.passages)} passages of this version",
                seen="no such passage", action="The hit is another version's: search again with this one.",
            )
        return self.passages[place]

    def search(self, vectors: Any, k: int) -> tuple[tuple[Hit, ...], ...]:
        """The ``k`` nearest passages of each row, best first; equal scores in the order of the passages.

        :raises EmbeddingDimensionError: when the rows have another dimension than the store.
        :raises DataError: when a row holds no finite numbers.
        """
        rows = self._checked(vectors)
        scores = rows @ self.vectors.T
        count = max(0, min(k, len(self.passages)))
        # A stable sort, so that one query alone and in a batch gives the same order.
        best = np.argsort(-scores, axis=1, kind="stable")[:, :count]
        return tuple(
            tuple(Hit(self.passages[place].id, float(line[place])) for place in order)
            for line, order in zip(scores, best, strict=True)
        )

    def _checked(self, vectors: Any) -> NDArray[np.float32]:
        rows = np.asarray(vectors, dtype=np.float32)
        if rows.ndim != 2 or rows.shape[1] != self.dimension:
            seen = f"shape {rows.shape}" if rows.ndim != 2 else str(rows.shape[1])
            raise EmbeddingDimensionError(
                "query vectors", expected=f"rows of dimension {self.dimension}", seen=seen,
                action="They are another version's embeddings: embed the question with this version.",
            )
        if not np.isfinite(rows).all():
            raise DataError("query vectors", expected="finite numbers", seen="NaN or infinite ones",
                            action="Embed the question again.")
        return rows
