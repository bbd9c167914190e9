from __future__ import annotations

import asyncio
import json
from typing import Any

import numpy as np
import pytest

from airflow_provider_ragops.exceptions import EmbeddingDimensionError, InvalidInputError, TooLargeError
from airflow_provider_ragops.workloads.serving.cache.values import Decomposition
from airflow_provider_ragops.workloads.serving.questions import (
    SIDE_BY_SIDE,
    Questions,
    answer_questions,
    read_questions,
)
from airflow_provider_ragops.workloads.serving.settings import Limits
from airflow_provider_ragops.workloads.serving.workers import Workers

from .rag import MemoryCache, Retriever, a_model

LIMITS = Limits(queries=3, query_characters=20)
REFUSED = {
    "no JSON": b"{", "only fields that exist": b'{"queries": ["a"], "customer": 1}', "no list": b'{"queries": "a"}',
    "empty list": b'{"queries": []}', "number": b'{"queries": [1]}', "null": b'{"queries": [null]}',
    "NaN": b'{"queries": [NaN]}', "blank": b'{"queries": [" \\u2003"]}', "surrogate": b'{"queries": ["\\ud800"]}',
    "customer a list": b'{"queries": ["a"], "customer_id": []}', "truth": b'{"queries": ["a"], "customer_id": true}',
    "customer empty": b'{"queries": ["a"], "customer_id": ""}', "infinite": b'{"queries": ["a"], "customer_id": 1e999}',
    "customer unprintable": b'{"queries": ["a"], "customer_id": "a\\n"}',
    "customer surrogate": b'{"queries": ["a"], "customer_id": "\\ud800"}',
    "customer long": json.dumps({"queries": ["a"], "customer_id": "x" * 257}).encode(),
    "customer a long number": json.dumps({"queries": ["a"], "customer_id": 10**300}).encode(),
}


def ask(asked: Questions, cache: Any = None, retriever: Any = None) -> Any:
    async def run() -> Any:
        workers = Workers(2, 100)
        try:
            return await answer_questions(asked, a_model(retriever), cache or MemoryCache(), workers.run)
        finally:
            workers.close()

    return asyncio.run(run())


@pytest.mark.parametrize("body", REFUSED.values(), ids=REFUSED)
def test_what_is_no_question_is_refused(body: bytes) -> None:
    """Each is refused with what was expected, before any work, and without repeating the caller's text."""
    with pytest.raises(InvalidInputError) as refused:
        read_questions("model M version 3", body, LIMITS)
    assert "docs/serving.md" in str(refused.value)
    str(refused.value).encode()


@pytest.mark.parametrize("queries", [["a"] * 4, ["word " * 20_000]], ids=["too many", "20,000 words"])
def test_too_much_is_refused_by_size(queries: list[str]) -> None:
    """The limit is named."""
    with pytest.raises(TooLargeError, match=r"at most (3|20)"):
        read_questions("model M version 3", json.dumps({"queries": queries}).encode(), LIMITS)


@pytest.mark.parametrize(("body", "expected"), [
    (b'{"queries": ["a", "b"]}', Questions(("a", "b"), None)),
    (b'{"queries": ["a"], "customer_id": null}', Questions(("a",), None)),
    (b'{"queries": ["a"], "customer_id": 123}', Questions(("a",), "123")),
    ('{"queries": ["Gebühr 🙂?"], "customer_id": "Müller"}'.encode(), Questions(("Gebühr 🙂?",), "Müller")),
    (b'{"dataframe_records": [{"query": "a"}]}', None),
    (b"[]", None),
])
def test_questions_are_read(body: bytes, expected: Questions | None) -> None:
    """Texts in any script, a customer as text or number; None for MLflow's formats."""
    assert read_questions("model M version 3", body, LIMITS) == expected


def test_each_question_is_answered_with_its_sources() -> None:
    """In order, by the loaded version, from the passages that its sub-queries found."""
    answer = json.loads(ask(Questions(("refunds and fees", "cards"), "7")).body)
    first, second = answer["answers"]
    assert first["sub_queries"] == ["refunds", "fees"]
    assert [source["id"] for source in first["sources"]] == ["0", "1"]
    assert first["text"] == "Refunds take five days. Fees are listed yearly."
    assert second["sources"][0]["title"] == "Passage 2"
    assert answer["metadata"] == {
        "model_name": "rag-retriever", "model_version": "3",
        "cache": {"decomposition": ["miss", "miss"], "hits": ["miss", "miss"]},
    }


def test_the_second_time_nothing_is_computed() -> None:
    """Decomposition per customer, search results for all customers; the same answer."""
    cache, retriever = MemoryCache(), Retriever()
    first = ask(Questions(("refunds and fees",), "7"), cache, retriever)
    searches = retriever.searches
    second = ask(Questions(("refunds and fees",), "7"), cache, retriever)
    other = ask(Questions(("refunds and fees",), "8"), cache, retriever)
    assert second.cache == (("decomposition", "hit"), ("hits", "hit"))
    assert other.cache == (("decomposition", "miss"), ("hits", "hit"))
    assert retriever.searches == searches == 1
    assert json.loads(first.body)["answers"] == json.loads(second.body)["answers"] == json.loads(other.body)["answers"]


def test_all_sub_queries_are_searched_at_once() -> None:
    """One search, so one matrix product, whatever the number of sub-queries; the CPU's work is in workers."""
    retriever = Retriever()
    ask(Questions(("a and b and c and d",), None), retriever=retriever)
    assert retriever.searches == 1
    assert all(name.startswith("worker-") for name in retriever.threads)


def test_two_questions_of_one_customer_do_not_share_an_answer() -> None:
    """The key has the question: the second one is not answered with the first one's decomposition."""
    cache = MemoryCache()
    bodies = [ask(Questions((text,), "7"), cache).body for text in ("refunds", "cards")]
    first, second = (json.loads(body)["answers"][0] for body in bodies)
    assert (first["sub_queries"], second["sub_queries"]) == (["refunds"], ["cards"])


def test_vectors_of_another_dimension_are_never_searched() -> None:
    """C7: a cache that gave another version's vectors is an error with its code, not an answer."""

    class Foreign(MemoryCache):
        async def decomposition(self, customer_id: Any, question: str, build: Any, **more: Any) -> Any:
            return Decomposition((question,), np.zeros((1, 512), dtype="float32")), "hit"

    retriever = Retriever()
    with pytest.raises(EmbeddingDimensionError, match=r"dimension 26; saw shape \(1, 512\)"):
        ask(Questions(("refunds",), "7"), Foreign(), retriever)
    assert retriever.searches == 0


def test_questions_of_one_request_are_answered_side_by_side_but_not_all_at_once() -> None:
    """A request of many questions does not take every place of the cache and the workers."""
    seen = {"now": 0, "most": 0}

    class Slow(MemoryCache):
        async def decomposition(self, customer_id: Any, question: str, build: Any, **more: Any) -> Any:
            seen["now"] += 1
            seen["most"] = max(seen["most"], seen["now"])
            await asyncio.sleep(0.01)
            seen["now"] -= 1
            return await build(), "miss"

    ask(Questions(tuple(f"question {number}" for number in range(12)), None), Slow())
    assert seen["most"] == SIDE_BY_SIDE
