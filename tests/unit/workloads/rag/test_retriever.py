"""Search, answers, and the parts that must belong together."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from airflow_provider_ragops.exceptions import (
    DataError,
    EmbeddingDimensionError,
    EncoderError,
    ModelFilesError,
    RagopsError,
    TokenizerError,
)
from airflow_provider_ragops.workloads.rag import answering
from airflow_provider_ragops.workloads.rag.retriever import RagRetriever
from airflow_provider_ragops.workloads.rag.store import Hit, Passage, PassageStore
from tests.unit.workloads.rag.retrievers import retriever


def store(vectors: Any) -> PassageStore:
    rows = np.asarray(vectors, dtype=np.float32)
    return PassageStore(tuple(Passage(f"p{place}", "T", "Some text.") for place in range(len(rows))), rows)


@given(
    arrays.arrays(np.float32, (7, 3), elements=st.sampled_from([-1.0, -0.5, 0.0, 0.5, 1.0])),
    arrays.arrays(np.float32, (4, 3), elements=st.sampled_from([-1.0, 0.0, 1.0])),
    st.integers(0, 9),
)
def test_search_is_brute_force(vectors: Any, queries: Any, k: int) -> None:
    """For any vectors, ties included: the k best by cosine, equal ones in the order of the passages."""
    found = store(vectors).search(queries, k)
    for query, hits in zip(queries, found, strict=True):
        scored = [(-float(np.dot(query, row)), place) for place, row in enumerate(vectors)]
        assert [(hit.passage, hit.score) for hit in hits] == [
            (f"p{place}", -score) for score, place in sorted(scored)[:k]
        ]


def test_one_product_for_all_sub_queries() -> None:
    """Searched together or one by one, sub-queries find the same passages with the same scores."""
    model = retriever()
    vectors = model.embed(["refund", "delivery abroad", "my card was stolen"])
    together = model.search(vectors, 3)
    for row, hits in zip(vectors, together, strict=True):
        (alone,) = model.search(row[None], 3)
        assert [hit.passage for hit in alone] == [hit.passage for hit in hits]
        assert [hit.score for hit in alone] == pytest.approx([hit.score for hit in hits], abs=1e-5)


def test_vectors_of_another_version_are_refused() -> None:
    """C7: the incident's first error has a name, and says both dimensions."""
    with pytest.raises(EmbeddingDimensionError, match="rows of dimension 768; saw 512"):
        retriever(768).search(retriever(512).embed(["How do I pay?"]))


@pytest.mark.parametrize(("vectors", "kind"), [
    (np.zeros(512), EmbeddingDimensionError), (np.zeros((1, 1, 512)), EmbeddingDimensionError),
    (np.full((1, 512), np.nan), DataError), (np.full((2, 512), np.inf), DataError),
])  # fmt: skip
def test_vectors_that_are_none(vectors: Any, kind: type[RagopsError]) -> None:
    """A wrong shape, NaN and infinity are errors, never an arbitrary answer."""
    with pytest.raises(kind):
        retriever().search(vectors)


def test_a_compound_question_is_answered_in_parts() -> None:
    """Each sub-query is answered from its own passage, and the sources are named once, with their titles."""
    found = retriever().answer("What is the policy for overseas transfers and how long does a refund take?")
    assert "Overseas transfers are processed within two to three business days." in found.text
    assert "A refund is paid within five business days" in found.text
    assert [source.title for source in found.sources] == ["Overseas transfers", "Refund times"]
    assert all(0 < source.score <= 1.0001 for source in found.sources)


def test_no_sentence_is_said_twice() -> None:
    """Two sub-queries with one passage: one source, its better score, each sentence once."""
    model = retriever()
    name = model.store.passages[0].id
    parts = ("how long", "how long")
    found = model.compose("?", parts, ((Hit(name, 0.2),), (Hit(name, 0.7),)))
    assert [(source.id, source.score) for source in found.sources] == [(name, 0.7)]
    assert len(answering.sentences(found.text)) == len(set(answering.sentences(found.text)))


def test_nothing_found_is_an_empty_answer() -> None:
    """No hits: no text, no source."""
    assert retriever().compose("q", ("q",), ((),)).text == ""


def test_a_hit_of_another_version_is_refused() -> None:
    """A passage that this version does not hold is an error that names it, not another passage."""
    with pytest.raises(DataError, match=r"passage 'v1-only': expected one of the 63 passages of this version"):
        retriever().compose("q", ("q",), ((Hit("v1-only", 0.9),),))


def test_sentences_that_answer_are_chosen() -> None:
    """Of a long passage the two sentences with the question's rare words, in the passage's order."""
    passages = [Passage("a", "A", "The sky is the sky. The fee is 5 euros. The sea is the sea. Fees rise in May.")]
    passages += [Passage(f"b{number}", "B", "The sky and the sea.") for number in range(5)]
    weights = answering.Weights.of(passages)
    assert answering.best_sentences("What are the fees?", passages[0], weights) == [
        "The fee is 5 euros.", "Fees rise in May.",
    ]  # fmt: skip


@given(st.text())
def test_answers_say_only_what_passages_say(question: str) -> None:
    """Extractive: for any question, every sentence of the answer stands in the passage."""
    passage = Passage("a", "Title", "One sentence here. Another one there! And a third, with 5.5 percent? Yes.")
    chosen = answering.best_sentences(question, passage, answering.Weights.of([passage]))
    assert 1 <= len(chosen) <= answering.SENTENCES
    assert all(each in passage.text for each in chosen)


def test_parts_of_one_version_pass() -> None:
    """What was made together is accepted, whatever the dimension; the attributes are the parts' own."""
    for dimension in (256, 768):
        model = retriever(dimension)
        model.check()
        model.check(model.manifest.metadata)
        assert (model.dimension, model.vocabulary_size) == (dimension, 30_522)


def _with(**told: Any) -> RagRetriever:
    model = retriever()
    return RagRetriever(model.embedder, model.store, replace(model.manifest, **told))


@pytest.mark.parametrize(("model", "kind", "text"), [
    (lambda: _with(vocabulary_size=50_000), TokenizerError, "expected 50000.*saw 30522"),
    (lambda: _with(tokenizer="feed"), TokenizerError, "tokenizer: expected feed"),
    (lambda: _with(dimension=768), EmbeddingDimensionError, "head: expected 768.*saw 512"),
    (lambda: _with(base_encoder="feed"), EncoderError, "base encoder's fingerprint: expected feed"),
    (lambda: _with(embedder_fingerprint="feed"), EncoderError, "embedder's fingerprint: expected feed"),
    (lambda: RagRetriever(retriever(512).embedder, retriever(768).store, retriever(512).manifest),
     EmbeddingDimensionError, "store: expected 512.*saw 768"),
    (lambda: RagRetriever(retriever(512, seed=1).embedder, retriever(512).store, retriever(512).manifest),
     EncoderError, "embedder's fingerprint"),
])  # fmt: skip
def test_parts_of_two_versions_are_told_apart(model: Any, kind: type[RagopsError], text: str) -> None:
    """Vocabulary, tokenizer, dimension, encoder or head of another version: named, with both values."""
    with pytest.raises(kind, match=text):
        model().check()


def test_store_needs_a_vector_for_each_passage() -> None:
    """Vectors cut short, an id twice, or no passage at all are no store."""
    passages = retriever().store.passages
    for some, rows in ((passages, 62), ((passages[0], passages[0]), 2), ((), 0)):
        with pytest.raises(ModelFilesError, match="a vector for each passage"):
            PassageStore(some, np.zeros((rows, 4), dtype=np.float32))
