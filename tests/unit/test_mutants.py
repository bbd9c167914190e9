"""The mutants fit the tree, and the run over them tells what happened to each; on a small tree, and on this one."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from demo.paths import ROOT

from tests.mutants import __main__ as command
from tests.mutants.catalogue import Mutant, load, selects, staleness
from tests.mutants.trial import KILLED, STALE, SURVIVED, TIMED_OUT, UNFIT, Result, copy_tree, run_tests

MUTANTS = load()
TOY = {
    "toy/__init__.py": "",
    "toy/sums.py": "def add(a, b):\n    return a + b\n\n\n"
                   "def hang(n):\n    while n > 0:\n        n -= 1\n    return n\n",
    "toy/unused.py": "ANSWER = 42\n",
    "toy/test_sums.py": "import pytest\n\nfrom toy import sums\n\n\n"
                        "def test_add():\n    assert sums.add(2, 3) == 5\n\n\n"
                        "def test_zero():\n    assert sums.add(0, 0) == 0\n\n\n"
                        "def test_hang():\n    assert sums.hang(3) == 0\n\n\ndef test_broken():\n    assert False\n\n\n"
                        "@pytest.fixture\ndef five():\n    assert sums.add(2, 3) == 5\n\n\n"
                        "def test_fixture(five):\n    assert five is None\n",
    "pyproject.toml": '[tool.pytest.ini_options]\naddopts = "--import-mode=importlib"\n',
}  # fmt: skip


def test_every_mutant_fits_the_tree() -> None:
    """L17: its old text stands exactly once in its file, it changes code, and its tests exist."""
    assert [fault for mutant in MUTANTS if (fault := staleness(mutant, ROOT))] == []


def sown(name: str, old: str, new: str, *tests: str, file: str = "toy/sums.py") -> Mutant:
    return Mutant(name, "L17: a reason", file, old, new, tuple(f"toy/test_sums.py{test}" for test in tests or ("",)))


SOWN = {
    "killed": (sown("killed", "a + b", "a - b", "::test_add"), KILLED, "toy/test_sums.py::test_add"),
    "survived": (sown("survived", "a + b", "a - b", "::test_zero"), SURVIVED, "passed"),
    "hangs": (sown("hangs", "n -= 1", "n -= 0", "::test_hang"), TIMED_OUT, "::test_hang"),
    "stale": (sown("stale", "a * b", "a - b", "::test_add"), STALE, "found it 0 times"),
    "twice": (sown("twice", "return", "yield", "::test_add"), STALE, "found it 2 times"),
    "no code": (sown("no code", "    return n\n", "    return n  # n\n", "::test_hang"), STALE, "changes no code"),
    "no test": (sown("no test", "a + b", "a - b", "::test_gone"), STALE, "no test test_gone"),
    "untested": (Mutant("untested", "L17: x", "toy/sums.py", "a + b", "a - b", ()), STALE, "names no test"),
    "broken test": (sown("broken test", "a + b", "a - b", "::test_broken"), UNFIT, "fails without the mutant"),
    "not importable": (sown("not importable", "def add", "import gone\ndef add", "::test_add"), UNFIT, "gone"),
    "broken fixture": (sown("broken fixture", "a + b", "a - b", "::test_fixture"), UNFIT, "pytest ended with 1"),
    "not loaded": (sown("not loaded", "42", "43", "::test_add", file="toy/unused.py"), UNFIT, "never loaded"),
}  # fmt: skip


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("toy")
    for name, text in TOY.items():
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(text)
    return root


@pytest.fixture(scope="module")
def results(toy: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Result]:
    mutants = [mutant for mutant, _, _ in SOWN.values()]
    scratch, parts = tmp_path_factory.mktemp("copies"), ("toy", "pyproject.toml")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("tests.mutants.trial.TEST_TIMEOUT", 2)
        found = asyncio.run(command.try_all(mutants, toy, scratch, 2, lambda _: None, parts))
    return {result.mutant.name: result for result in found}


@pytest.mark.parametrize("name", SOWN)
def test_each_mutant_has_its_outcome(results: dict[str, Result], name: str) -> None:
    """L17: killed by which test, hung, survived, stale, or unfit to prove anything."""
    _, outcome, detail = SOWN[name]
    assert results[name].outcome == outcome
    assert detail in results[name].detail


def test_the_tree_itself_is_never_touched(results: dict[str, Result], toy: Path) -> None:
    """Mutants are sown in copies."""
    assert {name: (toy / name).read_text() for name in TOY} == TOY
    assert sorted(each.name for each in toy.rglob("*.pyc")) == []


def test_the_report_counts_outcomes_and_the_faults_of_the_killed(results: dict[str, Result]) -> None:
    """What build/mutants.json says."""
    found = command.report(list(results.values()), 1.0)
    assert found["counts"] == {"mutants": 12, KILLED: 1, TIMED_OUT: 1, SURVIVED: 1, STALE: 5, UNFIT: 4}
    assert found["faults"] == {"L17": 2}
    assert [each["name"] for each in found["mutants"]] == list(SOWN)


def test_words_choose_mutants_and_unknown_ones_are_refused() -> None:
    """A name, a file or a fault number; no match never means all of them, nor all tests."""
    mutants = [mutant for mutant, _, _ in SOWN.values()]
    assert [each.name for each in command.chosen(mutants, ["surv", "unused"])] == ["survived", "not loaded"]
    with pytest.raises(SystemExit, match="holds no such word"):
        command.main(["no such word"])


def test_nothing_but_the_copy_is_tested(toy: Path, tmp_path: Path) -> None:
    """A module that comes from elsewhere (an editable install) spoils the run."""
    copy = copy_tree(toy, tmp_path / "copy", ("toy", "pyproject.toml"))
    (copy / "toy" / "test_sums.py").write_text(
        "import sys\nfrom types import ModuleType\n\n\ndef test_elsewhere():\n"
        f"    sys.modules['toy.extra'] = found = ModuleType('toy.extra')\n    found.__file__ = {str(toy / 'x.py')!r}\n"
    )
    ran = asyncio.run(run_tests(copy, ["toy/test_sums.py"]))
    assert ran.code == 7
    assert "not from the copy" in ran.output


def test_mutants_of_this_tree_are_killed_in_a_copy(tmp_path: Path) -> None:
    """L17: a quick run over a few; all of them are tried by `make mutants`."""
    mutants = [each for each in MUTANTS if each.name in ("undo-and-resume-swapped", "await-dropped")]
    found = asyncio.run(command.try_all(mutants, ROOT, tmp_path / "copies", 2, lambda _: None))
    assert [result.outcome for result in found] == [KILLED, KILLED]
    assert all("test_reconcile.py" in result.detail for result in found)


@pytest.mark.parametrize(("selection", "test", "belongs"), [
    ("tests/unit", "tests/unit/a.py::test_b", True), ("tests/unit/a.py", "tests/unit/a.py::test_b[c]", True),
    ("tests/unit/a.py::test_b", "tests/unit/a.py::test_b[c]", True),
    ("tests/unit/a.py::test_b", "tests/unit/a.py::test_bc", False),
    ("tests/unit/a", "tests/unit/ab.py::test_b", False),
])  # fmt: skip
def test_selections_are_matched_by_whole_parts(selection: str, test: str, belongs: bool) -> None:
    """A failing test spoils the mutants that rely on it, and no others."""
    assert selects(selection, test) is belongs
