"""A compound question as sub-queries, by rules on its text: pure, never empty, bounded.

The rules know English conjunctions and question words; punctuation is Unicode's. A text that no rule splits is its
own single sub-query, so an unknown language costs nothing but the split.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

MOST = 8  # sub-queries of a question; what is left over stays together in the last one
LONGEST = 1000  # characters of a sub-query: more than the encoder reads
_LONGEST_LIST = 300  # characters of a part that is looked at as a list

# A full stop ends a part only after a word of four letters or more: "Dr. Smith" and "no. 5" stay whole.
# Ends of Chinese, Japanese and Arabic sentences, the full-width signs too, and Spanish beginnings.
_ENDS = re.compile(r"(?<=[?;\uff1f\u061f\u2047\uff1b\u3002\uff01]) ?|(?<=\w{4}[.!]) | ?\u00bf")
# Bullets and "1." begin a line; "1)" and "(a)" may stand within one.
_ITEMS = re.compile(r"^(?:[-*\u2022\u2023\u2013]|\d{1,2}\.) |(?:^|(?<= ))\(?(?:\d{1,2}|[a-h])\) ")
_QUESTION = (
    "what|how|when|where|who|whom|whose|which|why|is|are|was|were|can|could|do|does|did|will|would|should|may|must|"
    "has|have|am|if"
)
_JOINED = re.compile(
    rf"[,;]? (?:and|or|but|plus|as well as|&)(?: (?:also|then))? (?=(?:{_QUESTION})\b)", re.IGNORECASE
)
_LIST_HEAD = re.compile(r"\b(?:for|of|about|between|on|with|regarding)\s+", re.IGNORECASE)
_LAST_ITEM = re.compile(r",?\s+(?:and|or)\s+", re.IGNORECASE)


def decompose(question: str) -> tuple[str, ...]:
    """Split a question into at most :data:`MOST` sub-queries, in their order and each once.

    At least one, whatever the text is; a question without any letter or digit comes back as it is.
    """
    parts = list(dict.fromkeys(part[:LONGEST].strip() for part in _parts(question)))
    if not parts:
        return (" ".join(question.split())[:LONGEST],)
    # A greeting says nothing beside a question; single words are questions only where there is nothing longer.
    longer = [part for part in parts if len(part.split()) > 1]
    return _bounded(_once(longer or parts))


def _parts(question: str) -> Iterator[str]:
    # Single spaces first: a pattern that begins with any number of them would take quadratic time over many.
    for line in (" ".join(each.split()) for each in question.splitlines()):
        for item in (each for sentence in _ENDS.split(line) for each in _ITEMS.split(sentence)):
            for clause in _JOINED.split(item):
                yield from (part for part in _listed(clause.strip(" ,;")) if any(map(str.isalnum, part)))


def _listed(clause: str) -> Iterator[str]:
    """Each item of "... for A, B and C" with what stands before the list; other clauses as they are."""
    items = _items(clause)
    if items is None:
        yield clause
        return
    head, names, mark = items
    yield from (f"{head}{name}{mark}" for name in names)


def _items(clause: str) -> tuple[str, list[str], str] | None:
    begins = _LIST_HEAD.search(clause)
    if begins is None or "," not in clause or len(clause) > _LONGEST_LIST:
        return None
    text = clause[begins.end():].rstrip("?\uff1f ")
    *names, last = (each.strip() for each in text.split(","))
    names += [each.strip() for each in _LAST_ITEM.split(last if not _leading_and(last) else last.split(None, 1)[1])]
    # Long items are clauses with commas between them, not the names of things.
    if len(names) < 3 or not all(1 <= len(name.split()) <= 4 for name in names):
        return None
    return clause[: begins.end()], names, clause[begins.end() + len(text):]


def _leading_and(text: str) -> bool:
    return text.lower().startswith(("and ", "or "))


def _once(parts: list[str]) -> list[str]:
    return list({part.casefold(): part for part in reversed(parts)}.values())[::-1]


def _bounded(parts: list[str]) -> tuple[str, ...]:
    rest = " ".join(parts[MOST - 1 :])[:LONGEST]
    return (*parts[: MOST - 1], *([rest] if rest else []))
