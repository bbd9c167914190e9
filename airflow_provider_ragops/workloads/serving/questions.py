"""The RAG path: questions to answers, through the version's cache.

The retriever is pure CPU and runs in the workers; the cache is asked on the event loop. A question is decomposed and
embedded once per customer (cached decomposition), and all of its sub-queries are searched at once.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from airflow_provider_ragops.exceptions import EmbeddingDimensionError, InvalidInputError, TooLargeError
from airflow_provider_ragops.workloads.serving.answer import Answer
from airflow_provider_ragops.workloads.serving.cache.values import Decomposition
from airflow_provider_ragops.workloads.serving.caching import Cache

if TYPE_CHECKING:
    from airflow_provider_ragops.workloads.serving.model import LoadedModel
    from airflow_provider_ragops.workloads.serving.settings import Limits

FIELDS = frozenset(("queries", "customer_id"))
CUSTOMER_CHARACTERS = 256
SIDE_BY_SIDE = 4  # questions of one request that are worked on at the same time

Run = Callable[..., Awaitable[Any]]


class Retriever(Protocol):
    """What the serving pod needs of a RAG model (``workloads.rag.retriever``)."""

    dimension: int
    vocabulary_size: int
    fingerprint: str

    def decompose(self, question: str) -> tuple[str, ...]: ...
    def embed(self, texts: Sequence[str]) -> Any: ...
    def search(self, vectors: Any, k: int = 5) -> Any: ...
    def compose(self, question: str, sub_queries: Sequence[str], hits: Any) -> Any: ...
    def check(self) -> None: ...


@dataclass(frozen=True)
class Questions:
    queries: tuple[str, ...]
    customer_id: str | None


def read_questions(subject: str, body: bytes, limits: Limits) -> Questions | None:
    """The questions of a request; None for one in MLflow's formats.

    :raises InvalidInputError: it has ``queries``, but is no valid request.
    :raises TooLargeError: too many questions, or one too long.
    """
    try:
        decoded = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise _invalid(subject, "a JSON object", f"no JSON ({type(error).__name__})") from error
    if not isinstance(decoded, dict) or "queries" not in decoded:
        return None
    if unknown := sorted(decoded.keys() - FIELDS):
        raise _invalid(subject, "the fields queries and customer_id", f"also {', '.join(map(_shown, unknown[:5]))}")
    return Questions(_queries(subject, decoded["queries"], limits), _customer(subject, decoded.get("customer_id")))


def _queries(subject: str, given: Any, limits: Limits) -> tuple[str, ...]:
    if not isinstance(given, list) or not given:
        raise _invalid(subject, "queries: a list of at least one question", _kind(given))
    if len(given) > limits.queries:
        raise _too_large(subject, f"at most {limits.queries} questions", str(len(given)))
    for place, query in enumerate(given):
        if not isinstance(query, str) or not query.strip():
            raise _invalid(subject, "a text in each of queries", f"{_kind(query)} at {place}")
        if len(query) > limits.query_characters:
            raise _too_large(subject, f"questions of at most {limits.query_characters} characters",
                             f"{len(query)} at {place}")
        if not _encodable(query):
            raise _invalid(subject, "valid Unicode in each of queries", f"a lone surrogate at {place}")
    return tuple(given)


def _customer(subject: str, given: Any) -> str | None:
    if given is None:
        return None
    if isinstance(given, bool) or not isinstance(given, (str, int)):
        raise _invalid(subject, "customer_id: a text or a whole number", _kind(given))
    text = str(given) if isinstance(given, str) or abs(given) < 10**CUSTOMER_CHARACTERS else ""
    if not 0 < len(text) <= CUSTOMER_CHARACTERS or not text.isprintable():
        expected = f"customer_id: 1 to {CUSTOMER_CHARACTERS} printable characters"
        raise _invalid(subject, expected, f"{len(text)} characters")
    return text


async def answer_questions(asked: Questions, loaded: LoadedModel, cache: Cache, run: Run) -> Answer:
    """Answer every question, in order. ``run(function, *arguments)`` calls it in a worker."""
    places, budget = asyncio.Semaphore(SIDE_BY_SIDE), cache.budget()  # of Redis' time, for the whole request

    async def one(question: str) -> tuple[dict[str, Any], str, str]:
        async with places:
            return await _answer(question, asked.customer_id, loaded, cache, run, budget)

    tasks = [asyncio.ensure_future(one(question)) for question in asked.queries]
    try:
        done = await asyncio.gather(*tasks)
    finally:
        for task in tasks:  # of a request that failed or ran out of time, none goes on
            task.cancel()
    outcomes = {"decomposition": [each[1] for each in done], "hits": [each[2] for each in done]}
    metadata = {"model_name": loaded.name, "model_version": loaded.version, "cache": outcomes}
    body = json.dumps({"answers": [each[0] for each in done], "metadata": metadata}, allow_nan=False)
    return Answer(body, cache=tuple((layer, outcome) for layer in outcomes for outcome in outcomes[layer]))


async def _answer(
    question: str, customer_id: str | None, loaded: LoadedModel, cache: Cache, run: Run, budget: Any
) -> tuple[dict[str, Any], str, str]:
    retriever = loaded.retriever
    assert retriever is not None  # noqa: S101  only RAG models are asked questions

    async def decomposed() -> Decomposition:
        found: Decomposition = await run(_decompose, retriever, question)
        return found

    split, first = await cache.decomposition(customer_id, question, decomposed, budget=budget)
    _check_dimension(loaded, retriever, split)

    async def searched() -> Any:
        return await run(retriever.search, split.vectors)

    hits, second = await cache.hits(split.sub_queries, searched, budget=budget)
    answer = await run(retriever.compose, question, split.sub_queries, hits)
    sources = [{"id": source.id, "title": source.title, "score": float(source.score)} for source in answer.sources]
    told = {"text": answer.text, "sources": sources, "sub_queries": list(split.sub_queries)}
    return told, str(first), str(second)


def _decompose(retriever: Retriever, question: str) -> Decomposition:
    sub_queries = retriever.decompose(question)
    return Decomposition(sub_queries, retriever.embed(sub_queries))


def _check_dimension(loaded: LoadedModel, retriever: Retriever, split: Decomposition) -> None:
    """The cache never gives another version's vectors; if it did, no search may see them."""
    seen = tuple(split.vectors.shape)
    if seen != (len(split.sub_queries), retriever.dimension):
        raise EmbeddingDimensionError(
            loaded.subject, expected=f"{len(split.sub_queries)} vectors of dimension {retriever.dimension}",
            seen=f"shape {seen}", action="Report it: a value of another version was read.",
        )


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _kind(value: Any) -> str:
    if value == [] or value == "" or value is None:
        return {type(None): "null", list: "an empty list", str: "an empty text"}[type(value)]
    return "a blank text" if isinstance(value, str) else f"a value of type {type(value).__name__}"


def _shown(name: str) -> str:
    return repr(name[:40].encode("ascii", "backslashreplace").decode())


def _invalid(subject: str, expected: str, seen: str) -> InvalidInputError:
    return InvalidInputError(subject, expected=expected, seen=seen, action="See docs/serving.md for the formats.")


def _too_large(subject: str, expected: str, seen: str) -> TooLargeError:
    return TooLargeError(subject, expected=expected, seen=seen, action="Split the request.")
