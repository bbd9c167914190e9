"""Texts to unit vectors: tokenizer, base encoder and head of one version."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from airflow_provider_ragops import contract
from airflow_provider_ragops.exceptions import TokenizerError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from airflow_provider_ragops.workloads.rag.encoder import BaseEncoder
    from airflow_provider_ragops.workloads.rag.tokenizer import Tokenizer

_SMALLEST = np.float32(1e-12)


@dataclass(frozen=True)
class Embedder:
    """``head`` is the matrix (dimension, 384) that was trained; its product with a base embedding is the vector."""

    tokenizer: Tokenizer
    encoder: BaseEncoder
    head: NDArray[np.float32]

    def __post_init__(self) -> None:
        # A token id beyond the encoder's table would raise deep inside, or worse, mean another word.
        if self.tokenizer.vocabulary_size != self.encoder.vocabulary_size:
            raise TokenizerError(
                "tokenizer", expected=f"the base encoder's vocabulary of {self.encoder.vocabulary_size} tokens",
                seen=f"one of {self.tokenizer.vocabulary_size}",
                action="The tokenizer is another model's: train another version with this image's.",
            )

    @property
    def dimension(self) -> int:
        return int(self.head.shape[0])

    @cached_property
    def fingerprint(self) -> str:
        """Equal fingerprints give equal vectors."""
        head = hashlib.sha256(np.ascontiguousarray(self.head).tobytes()).hexdigest()
        return contract.digest("embedder", self.encoder.fingerprint, self.tokenizer.digest, str(self.head.shape), head)

    def base(self, texts: Sequence[str], check: Callable[[], None] = lambda: None) -> NDArray[np.float32]:
        """The base encoder's embeddings as unit rows, (texts, 384): equal for all versions with this encoder."""
        return unit(self.encoder.encode(self.tokenizer.encode(texts), check))

    def embed(self, texts: Sequence[str], check: Callable[[], None] = lambda: None) -> NDArray[np.float32]:
        """Unit rows, (texts, dimension)."""
        return unit(self.base(texts, check) @ self.head.T)


def unit(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """Rows of length one; a row of zeros stays."""
    lengths = np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), _SMALLEST)
    return np.asarray(rows / lengths, dtype=np.float32)
