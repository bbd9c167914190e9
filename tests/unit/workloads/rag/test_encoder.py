"""Tokenizer, base encoder and head: right numbers, whatever else is in the batch."""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from airflow_provider_ragops.exceptions import EncoderError, ModelFilesError, TokenizerError
from airflow_provider_ragops.workloads.rag import encoder, tokenizer
from airflow_provider_ragops.workloads.rag.embedder import Embedder
from airflow_provider_ragops.workloads.rag.training.procedure import base_embedder
from tests.unit.workloads.rag.retrievers import retriever

TEXTS = [
    "What is the refund policy?", "short", "A longer passage about deliveries, " * 40,
    "Überweisung ins Ausland? 数据 😀", "",
]  # fmt: skip
# The first numbers of unit vectors by transformers 5.24.0 (AutoModel, mean pooling, at most 128 tokens).
REFERENCE = {
    0: [-0.09238819032907486, 0.053800083696842194, 0.04620511457324028, 0.029378846287727356],
    3: [-0.0015537893632426858, 0.0873575210571289, 0.053523559123277664, 0.018941471353173256],
}


@pytest.fixture(scope="module")
def base() -> Embedder:
    return base_embedder()


def test_embeddings_are_those_of_the_published_model(base: Embedder) -> None:
    """Run by torch's layers, the weights give what transformers gives, to six digits."""
    found = base.base(TEXTS)
    for row, expected in REFERENCE.items():
        assert found[row, :4] == pytest.approx(expected, abs=2e-6)


def test_rows_have_length_one(base: Embedder) -> None:
    """Any text has a unit vector, the empty one too; the base encoder's have 384 numbers."""
    found = base.base(TEXTS)
    assert (found.shape, found.dtype) == ((5, 384), np.float32)
    assert np.linalg.norm(found, axis=1) == pytest.approx(np.ones(5), abs=1e-5)


def test_a_text_does_not_depend_on_its_batch(base: Embedder) -> None:
    """Padding is not read: alone or among longer texts, a text has the same vector, so a cached one stays right."""
    together = base.base(TEXTS)
    for text, row in zip(TEXTS, together, strict=True):
        assert base.base([text])[0] == pytest.approx(row, abs=1e-5)


def test_no_texts(base: Embedder) -> None:
    """Nothing to embed gives no rows."""
    assert base.embed([]).shape == (0, 384)


def test_threads_share_an_embedder(base: Embedder) -> None:
    """Sixteen threads at once get the vectors that one gets."""
    expected = base.base(TEXTS)
    with ThreadPoolExecutor(16) as pool:
        for found in pool.map(lambda _: base.base(TEXTS), range(32)):
            assert np.array_equal(found, expected)


def test_long_and_strange_texts(base: Embedder) -> None:
    """20,000 words, a lone surrogate and control characters are read as far as the encoder reads."""
    found = base.base(["word " * 20_000, "a \ud800 b", "\x00\x07\u202e"])
    assert np.isfinite(found).all()
    assert max(map(len, base.tokenizer.encode(["word " * 20_000]))) == tokenizer.MOST_TOKENS


def test_vocabulary(base: Embedder) -> None:
    """The tokenizer has exactly the encoder's tokens."""
    assert base.tokenizer.vocabulary_size == base.encoder.vocabulary_size == 30_522


def other_tokenizer(folder: Path, words: int = 3) -> Path:
    """A tokenizer of another model: its own small vocabulary."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordPiece

    path = folder / "other.json"
    vocabulary = {"[UNK]": 0, **{f"word{number}": number + 1 for number in range(words)}}
    Tokenizer(WordPiece(vocabulary, unk_token="[UNK]")).save(str(path))
    return path


def test_a_foreign_tokenizer_is_refused(base: Embedder, tmp_path: Path) -> None:
    """Token ids of another vocabulary would be other words: both sizes are named, nothing is embedded."""
    foreign = tokenizer.load(other_tokenizer(tmp_path))
    with pytest.raises(TokenizerError, match="vocabulary of 30522 tokens; saw one of 4"):
        Embedder(foreign, base.encoder, base.head)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"version": "1.0"}', None])
def test_a_damaged_tokenizer_is_named(tmp_path: Path, content: bytes | None) -> None:
    """Cut short, empty, something else or missing: the file is named."""
    path = tmp_path / "tokenizer.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ModelFilesError, match=r"tokenizer tokenizer\.json: expected a tokenizer's file"):
        tokenizer.load(path)


def test_missing_wheel_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """An image without the weights says which requirements it lacks."""
    monkeypatch.setattr(encoder, "PACKAGE", "no_such_package_of_weights")
    with pytest.raises(EncoderError, match=r"the installed package no_such.*requirements-encoder\.txt"):
        encoder.model_folder()


def test_fingerprints_name_head_tokenizer_and_encoder(base: Embedder) -> None:
    """Equal parts give one fingerprint; another head gives another, and so does another shape of the same numbers."""
    heads = [np.eye(4, 384), np.eye(5, 384), np.zeros((4, 384)), np.zeros((8, 192))]
    made = [Embedder(base.tokenizer, base.encoder, head.astype(np.float32)).fingerprint for head in heads]
    again = [Embedder(base.tokenizer, base.encoder, head.astype(np.float32)).fingerprint for head in heads]
    assert made == again
    assert all(one != other for one, other in itertools.combinations(made, 2))


@pytest.mark.parametrize("dimension", [256, 384, 512, 768])
def test_dimension_is_the_head_s(dimension: int) -> None:
    """Each dimension gives unit rows of that many numbers."""
    found = retriever(dimension).embed(TEXTS[:2])
    assert found.shape == (2, dimension)
    assert np.linalg.norm(found, axis=1) == pytest.approx(np.ones(2), abs=1e-5)
