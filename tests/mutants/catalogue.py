"""The list of mutants, in ``lists/*.toml``, and whether each still fits the tree."""

from __future__ import annotations

import ast
import tomllib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.evidence import faults_of

LISTS = Path(__file__).with_name("lists")


@dataclass(frozen=True)
class Mutant:
    """One fault that is sown.

    :param why: what would go wrong with it, begun with its fault numbers, as in a test's docstring.
    :param old: text that stands exactly once in ``file``; ``new`` takes its place.
    :param tests: files or node ids of the tests that must notice.
    """

    name: str
    why: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    @property
    def faults(self) -> list[str]:
        return faults_of(self.why)

    def apply(self, text: str) -> str:
        """:raises ValueError: when the old text is not there exactly once."""
        found = text.count(self.old)
        if found != 1:
            raise ValueError(f"{self.file}: expected the old text of mutant {self.name} once, found it {found} times: "
                             f"{self.old!r}; bring the mutant up to date")
        return text.replace(self.old, self.new)


def load(folder: Path = LISTS) -> list[Mutant]:
    found = [
        Mutant(**{**one, "tests": tuple(one["tests"])})
        for file in sorted(folder.glob("*.toml")) for one in tomllib.loads(file.read_text())["mutant"]
    ]
    if twice := [name for name, count in Counter(mutant.name for mutant in found).items() if count > 1]:
        raise ValueError(f"mutants of one name: {', '.join(twice)}")
    return found


def staleness(mutant: Mutant, root: Path) -> str:
    """Why the mutant can't be tried on this tree; empty where it can."""
    return next(_stale(mutant, root), "")


def _stale(mutant: Mutant, root: Path) -> Iterator[str]:
    file = root / mutant.file
    if not file.is_file():
        yield f"{mutant.file}: no such file"
        return
    try:
        mutated = mutant.apply(file.read_text())
        if ast.dump(ast.parse(mutated)) == ast.dump(ast.parse(file.read_text())):
            yield f"mutant {mutant.name} changes no code"
    except (ValueError, SyntaxError) as error:
        yield str(error)
    if not mutant.tests:
        yield f"mutant {mutant.name} names no test"
    for test in mutant.tests:
        path, _, name = test.partition("::")
        if not (root / path).exists():
            yield f"{path}: no such test file"
        elif name and f"def {name.partition('[')[0].rpartition('::')[2]}(" not in (root / path).read_text():
            yield f"{path}: no test {name}"


def selects(selection: str, test: str) -> bool:
    """Whether the test's node id belongs to a selection: a folder, a file, a function or the id itself."""
    return test == selection or test.startswith(tuple(f"{selection}{end}" for end in ("/", "::", "[")))
