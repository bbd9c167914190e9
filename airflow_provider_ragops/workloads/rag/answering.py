"""An extractive answer: the sentences of the best passages that share most with the question. Pure.

Words weigh by how rare they are among the version's passages, so that "the" decides nothing. Nothing is written that
no passage says, and nothing is summarised.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from airflow_provider_ragops.workloads.rag.store import Passage

SENTENCES = 2  # of a passage in the answer to one sub-query
_WORD = re.compile(r"\w+")
_SENTENCE_END = re.compile(r"(?<=[.!?\u3002\uff01\uff1f])\s+(?=[^\sa-z])|\n{2,}")


@dataclass(frozen=True)
class Weights:
    """The weight of each word; an unknown one is the rarest."""

    known: Mapping[str, float]
    unknown: float

    @classmethod
    def of(cls, passages: Iterable[Passage]) -> Weights:
        texts = [words(f"{passage.title} {passage.text}") for passage in passages]
        seen = Counter(word for text in texts for word in text)
        total = len(texts) + 1
        return cls({word: math.log(total / count) for word, count in seen.items()}, math.log(total))

    def shared(self, question: frozenset[str], sentence: frozenset[str]) -> float:
        return sum(self.known.get(word, self.unknown) for word in question & sentence)


def words(text: str) -> frozenset[str]:
    """The words of a text, without an English plural's ending: "refund" answers a question about refunds."""
    found = _WORD.findall(text.casefold())
    return frozenset(word[:-1] if len(word) > 3 and word.endswith("s") else word for word in found)


def sentences(text: str) -> list[str]:
    """The sentences of a text, each on one line."""
    parts = (" ".join(part.split()) for part in _SENTENCE_END.split(text))
    return [part for part in parts if part]


def best_sentences(question: str, passage: Passage, weights: Weights) -> list[str]:
    """At most :data:`SENTENCES` of a passage, in the passage's order; of equally good ones the first."""
    asked, found = words(question), sentences(passage.text)
    scores = [weights.shared(asked, words(each)) for each in found]
    chosen = sorted(sorted(range(len(found)), key=lambda place: -scores[place])[:SENTENCES])
    return [found[place] for place in chosen]
