"""Question-passage pairs from the policy corpus beside this file; its first lines say how it is written."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from rag.documentation import Pair

CORPUS = Path(__file__).with_name("policies.txt")
_BEGIN, _QUESTION, _COMMENT = "== ", "? ", "#"


def pairs(corpus: str | None = None) -> list[Pair]:
    """A pair for each question; the questions of one passage share its module, so they stay on one side of the split.

    :raises ValueError: naming the block that is no passage.
    """
    text = CORPUS.read_text(encoding="utf-8") if corpus is None else corpus
    blocks = (block for block in text.split("\n\n") if block.strip() and not block.startswith(_COMMENT))
    return [pair for block in blocks for pair in _block(block.strip().splitlines())]


def _block(lines: list[str]) -> Iterator[Pair]:
    head, _, title = lines[0].removeprefix(_BEGIN).partition(" | ")
    questions = [line.removeprefix(_QUESTION) for line in lines if line.startswith(_QUESTION)]
    text = " ".join(line for line in lines[1:] if not line.startswith(_QUESTION))
    if not lines[0].startswith(_BEGIN) or not (head and title and questions and text):
        raise ValueError(f"policy corpus: expected '== id | title', questions and a text; saw {lines[0]!r}")
    yield from (Pair("policy", "policy", f"policy.{head}", title, question, text) for question in questions)
