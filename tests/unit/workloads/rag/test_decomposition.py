"""Compound questions become sub-queries, by rules."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_ragops.workloads.rag.decomposition import LONGEST, MOST, decompose

CASES = {
    "one": ("How long does a refund take?", ["How long does a refund take?"]),
    "conjunction": (
        "What is the refund policy and how long does delivery take?",
        ["What is the refund policy", "how long does delivery take?"],
    ),
    "three clauses": (
        "How can I pay, and when will it arrive, or can I cancel?",
        ["How can I pay", "when will it arrive", "can I cancel?"],
    ),
    "and between things": ("Do you ship batteries and knives?", ["Do you ship batteries and knives?"]),
    "question marks": ("Where is my parcel? How do I return it?", ["Where is my parcel?", "How do I return it?"]),
    "greeting": ("Hello! What does express delivery cost?", ["What does express delivery cost?"]),
    "statement first": (
        "My card was stolen yesterday. What do I do?", ["My card was stolen yesterday.", "What do I do?"],
    ),
    "abbreviation": ("What did Dr. Smith decide?", ["What did Dr. Smith decide?"]),
    "semicolons": ("Refund policy; delivery time", ["Refund policy", "delivery time"]),
    "numbers": ("1) How do I pay? 2) Where is my parcel?", ["How do I pay?", "Where is my parcel?"]),
    "letters": ("(a) opening hours (b) languages spoken", ["opening hours", "languages spoken"]),
    "bullets": ("- return window\n- transfer limit\n1. gift cards", ["return window", "transfer limit", "gift cards"]),
    "decimal": ("Is the fee 1.2 or 1.5 percent?", ["Is the fee 1.2 or 1.5 percent?"]),
    "list": (
        "What are the fees for refunds, deliveries and returns?",
        ["What are the fees for refunds?", "What are the fees for deliveries?", "What are the fees for returns?"],
    ),
    "serial comma": (
        "Tell me about shipping, billing, and privacy.",
        ["Tell me about shipping", "Tell me about billing", "Tell me about privacy."],
    ),
    "no list": ("Ask for a refund, please", ["Ask for a refund, please"]),
    "twice": ("What is the fee? what is the FEE?", ["What is the fee?"]),
    "single words": ("Refunds? Delivery?", ["Refunds?", "Delivery?"]),
    "spaces": ("  How   do I\tpay?  ", ["How do I pay?"]),
    "spanish": ("¿Qué es esto? ¿Cómo pago?", ["Qué es esto?", "Cómo pago?"]),
    "chinese": ("退款政策是什么\uff1f多久送达\uff1f", ["退款政策是什么\uff1f", "多久送达\uff1f"]),
    "arabic": ("ما هي الرسوم\u061f متى يصل الطرد\u061f", ["ما هي الرسوم\u061f", "متى يصل الطرد\u061f"]),
    "emoji": ("😀 Where is my parcel? 📦📦", ["😀 Where is my parcel?"]),
    "empty": ("", [""]),
    "nothing to ask": (" ?! ", ["?!"]),
}  # fmt: skip


@pytest.mark.parametrize(("question", "expected"), CASES.values(), ids=CASES.keys())
def test_rules(question: str, expected: list[str]) -> None:
    """Each rule on a question that needs it, and on one that looks like it."""
    assert list(decompose(question)) == expected


@given(st.text())
def test_any_text_gives_sub_queries(question: str) -> None:
    """Never none, never too many, never too long, each once; the same text gives the same ones."""
    found = decompose(question)
    assert 1 <= len(found) <= MOST
    assert all(len(part) <= LONGEST for part in found)
    assert len({part.casefold() for part in found}) == len(found)
    assert decompose(question) == found
    if any(map(str.isalnum, question)):
        assert all(any(map(str.isalnum, part)) for part in found)


def test_what_is_over_the_bound_is_not_dropped() -> None:
    """The last sub-query holds the rest."""
    found = decompose(" ".join(f"What about topic number{number}?" for number in range(12)))
    assert len(found) == MOST
    assert all(f"number{number}" in found[-1] for number in range(MOST - 1, 12))


@pytest.mark.parametrize("piece", ["what and ", "for a, ", "? ", " ", "a , ", "1) ", "- ", "¿", ". ", "word. ", "\n"])
def test_long_texts_cost_little(piece: str) -> None:
    """A text of 20,000 words is split in well under a second: no rule backtracks."""
    began = time.process_time()
    assert len(decompose(piece * 20_000)) <= MOST
    assert time.process_time() - began < 2
