"""Question-passage pairs from the documentation strings of installed libraries: real text that every machine has.

The summary line of a function or class is the question, what follows it is the passage. Sources are read, never
imported. Equal releases of the libraries give equal pairs, in the same order; ``constraints.txt`` pins all of them.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.metadata
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

#: Distributions with much documentation, all in constraints.txt.
LIBRARIES = (
    "click", "fastapi", "feast", "mlflow", "networkx", "numpy", "pandas", "pandera", "pydantic", "redis", "requests",
    "scikit-learn", "scipy", "SQLAlchemy",
)
MOST_OF_A_LIBRARY = 220
_SHORTEST, _LONGEST = 120, 320  # characters of a passage: short enough to embed thousands on a CPU
_SKIPPED = re.compile(r"(^|/)(tests?|testing|_?vendor\w*|conftest\.py|examples|f2py|_pytest)(/|$)")
_MARKUP = re.compile(r":\w+:`~?([^`<]+?)(?:\s*<[^>]*>)?`|``?([^`]+)``?|\*\*([^*]+)\*\*")
_RULE = re.compile(r"^\s*[-=~^]{3,}\s*$|^\s*\.\. \w.*$|^\s*>>>.*$", re.MULTILINE)


@dataclass(frozen=True)
class Pair:
    """One question and the passage that answers it. ``module`` stays whole in the split."""

    source: str
    library: str
    module: str
    title: str
    question: str
    passage: str


def pairs(libraries: Iterable[str] = LIBRARIES) -> list[Pair]:
    """The pairs of these libraries: no question and no passage twice, at most :data:`MOST_OF_A_LIBRARY` of each."""
    questions: set[str] = set()
    passages: set[str] = set()
    found = []
    for library in libraries:
        # By digest, not by the alphabet: a library's share comes from all of its modules.
        for pair in islice(_new(sorted(_documented(library), key=_digest), questions, passages), MOST_OF_A_LIBRARY):
            found.append(pair)
    return found


def _new(candidates: Iterable[Pair], questions: set[str], passages: set[str]) -> Iterator[Pair]:
    for pair in candidates:
        question, passage = pair.question.casefold(), pair.passage.casefold()
        if question not in questions and passage not in passages:
            questions.add(question)
            passages.add(passage)
            yield pair


def _digest(pair: Pair) -> str:
    return hashlib.sha256(f"{pair.title}\x1f{pair.question}\x1f{pair.passage}".encode()).hexdigest()


def _documented(library: str) -> Iterator[Pair]:
    for path, file in _sources(library):
        module = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        for name, text in _docstrings(file):
            if pair := _pair(library, module, name, text):
                yield pair


def _sources(library: str) -> Iterator[tuple[str, Path]]:
    for file in sorted(importlib.metadata.files(library) or (), key=str):
        path = file.as_posix()
        if path.endswith(".py") and not path.startswith("..") and not _SKIPPED.search(path):
            yield path, Path(str(file.locate()))


def _docstrings(file: Path) -> Iterator[tuple[str, str]]:
    """Name and documentation of each public function and class, those of public classes included."""
    content = file.read_text(encoding="utf-8", errors="replace")
    if '"""' in content:
        yield from _within(ast.parse(content).body, "")


def _within(body: list[ast.stmt], prefix: str) -> Iterator[tuple[str, str]]:
    for node in body:
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) or node.name.startswith("_"):
            continue
        if text := ast.get_docstring(node):
            yield f"{prefix}{node.name}", text
        if isinstance(node, ast.ClassDef):
            yield from _within(node.body, f"{node.name}.")


def _pair(library: str, module: str, name: str, text: str) -> Pair | None:
    summary, _, rest = text.strip().partition("\n\n")
    question, passage = _plain(summary), _cut(_plain(rest))
    if not 4 <= len(question.split()) <= 30 or len(passage) < _SHORTEST or not passage.isascii():
        return None
    return Pair("documentation", library, module, f"{module}.{name}", question, passage)


def _plain(text: str) -> str:
    """The text on one line, without the marks of reStructuredText and without its rules and directives."""
    return " ".join(_MARKUP.sub(lambda match: next(filter(None, match.groups())), _RULE.sub(" ", text)).split())


def _cut(text: str) -> str:
    if len(text) <= _LONGEST:
        return text
    end = text.rfind(". ", 0, _LONGEST) + 1
    return text[: end if end > _SHORTEST else text.rfind(" ", 0, _LONGEST)].rstrip()
