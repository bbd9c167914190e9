"""Values as bytes: what goes in comes out, and nothing else does."""

from __future__ import annotations

import struct
import zlib
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_ragops.contract import text_digest
from airflow_provider_ragops.workloads.serving.cache.payload import Unfit
from airflow_provider_ragops.workloads.serving.cache.seals import Kind, decompositions, search_results
from airflow_provider_ragops.workloads.serving.cache.values import Decomposition, Hit, Identity

OURS = Identity("rag-retriever", "7", "0123456789abcdef", 4)
SUBJECT = text_digest("c1", "q")
SPLITS, HITS = decompositions(OURS), search_results(OURS, Hit)
TEXT = st.text(st.characters(), max_size=20)  # surrogates included
FLOATS = st.floats(width=32, allow_nan=False, allow_infinity=False)


@st.composite
def splits(draw: st.DrawFn) -> Decomposition:
    texts = draw(st.lists(TEXT, min_size=1, max_size=5))
    rows = [draw(st.lists(FLOATS, min_size=4, max_size=4)) for _ in texts]
    return Decomposition(tuple(texts), np.array(rows, np.float32))


@given(splits())
def test_a_decomposition_survives(split: Decomposition) -> None:
    """C7: texts of any kind and every bit of the vectors come back; the vectors are nobody's to write to."""
    back = SPLITS.opened(SUBJECT, SPLITS.sealed(SUBJECT, split))
    assert back.sub_queries == split.sub_queries
    assert back.vectors.tobytes() == split.vectors.tobytes()
    assert (back.vectors.dtype, back.vectors.flags.aligned, back.vectors.flags.writeable) == (np.float32, True, False)


@given(st.lists(st.builds(Hit, TEXT, st.floats(allow_nan=False, allow_infinity=False)), max_size=6))
def test_hits_survive(hits: list[Hit]) -> None:
    """C7: passages and scores come back exactly, in order; no hits are an answer, too."""
    assert HITS.opened(SUBJECT, HITS.sealed(SUBJECT, hits)) == tuple(hits)


@pytest.mark.parametrize("other", [
    replace(OURS, model="other"), replace(OURS, version="8"), replace(OURS, run="fedcba9876543210"),
    replace(OURS, dimension=2), replace(OURS, model="rag-retriever\x1f7", version="0123456789abcdef", run="4"),
])
def test_another_identitys_value_is_unfit(other: Identity) -> None:
    """C7: a value of another model, version, run or dimension is not read, however alike its bytes are."""
    split = Decomposition(("a",), np.ones((1, other.dimension), np.float32))
    raw = decompositions(other).sealed(SUBJECT, split)
    assert reason(SPLITS, raw) == "identity"


def test_another_kinds_or_questions_value_is_unfit() -> None:
    """C7: hits are no decomposition, and another question's value under this key is no answer."""
    assert reason(SPLITS, HITS.sealed(SUBJECT, [Hit("p", 1.0)])) == "identity"
    good = Decomposition(("a",), np.ones((1, 4), np.float32))
    assert reason(SPLITS, SPLITS.sealed(text_digest("c1", "q2"), good)) == "subject"


@given(splits(), st.data())
def test_no_damage_is_answered(split: Decomposition, data: st.DataObject) -> None:
    """C7: a value that was cut, lengthened or changed in any one place is unfit."""
    raw = SPLITS.sealed(SUBJECT, split)
    place = data.draw(st.integers(0, len(raw) - 1))
    damaged = data.draw(st.sampled_from([
        raw[:place], raw + raw[place:], raw[:place] + bytes([raw[place] ^ (1 << place % 8)]) + raw[place + 1:],
    ]))
    assert reason(SPLITS, damaged) in {"schema", "checksum"}


def resealed(body: bytes) -> bytes:
    """What someone writes who knows the form, checksum and all."""
    empty = SPLITS.seal.wrap(SUBJECT, b"")
    rest = empty[9:] + body
    return empty[:5] + struct.pack("<I", zlib.crc32(rest)) + rest


@settings(max_examples=300)
@given(st.one_of(st.binary(max_size=100), st.builds(
    lambda count, lengths, tail: struct.pack(f"<H{len(lengths)}I", count, *lengths) + tail,
    st.integers(0, 0xFFFF), st.lists(st.integers(0, 0xFFFFFFFF), max_size=4), st.binary(max_size=80),
)))
def test_no_body_raises_anything_else(body: bytes) -> None:
    """C7: under a right seal lies rubbish: it is unfit, or a decomposition of the right shape; never an error."""
    try:
        found = SPLITS.opened(SUBJECT, resealed(body))
    except Unfit:
        return
    assert found.vectors.shape == (len(found.sub_queries), OURS.dimension)
    assert np.isfinite(found.vectors).all()


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
def test_what_is_no_number_is_neither_kept_nor_read(number: float) -> None:
    """C7: NaN and infinity in vectors or scores are unfit on both ways."""
    vectors = np.array([[1, 2, 3, number]], np.float32)
    with pytest.raises(Unfit):
        SPLITS.sealed(SUBJECT, Decomposition(("a",), vectors))
    with pytest.raises(Unfit):
        HITS.sealed(SUBJECT, [Hit("p", number)])
    text = struct.pack("<HI", 1, 1) + b"a"
    assert reason(SPLITS, resealed(text + vectors.tobytes())) == "body"
    body = HITS.seal.wrap(SUBJECT, text + struct.pack("<d", number))
    assert reason(HITS, body) == "body"


def reason(kind: Kind, raw: bytes) -> str:
    with pytest.raises(Unfit) as unfit:
        kind.opened(SUBJECT, raw)
    return str(unfit.value)
