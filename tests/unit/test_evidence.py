"""The evidence plugin in a real pytest run of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest
from demo.paths import ROOT

from tests.evidence import faults_of, verdict_of

CONFTEST = '''
from pathlib import Path
from tests.evidence import Evidence
import pytest

def pytest_configure(config):
    config.pluginmanager.register(Evidence(Path("evidence.json")), "evidence")

@pytest.fixture
def evidence(pytestconfig):
    return pytestconfig.pluginmanager.get_plugin("evidence").counts

@pytest.fixture
def falls():
    yield
    raise RuntimeError("cable pulled")

@pytest.fixture
def never():
    raise RuntimeError("no such server")
'''
TESTS = '''
import pytest

def test_good(evidence):
    """L1, R12: the holder gives up."""
    evidence["requests"] += 3
    evidence["requests"] += 4

def test_bad():
    """L1: the same fault, shown badly."""
    assert 1 == 2

@pytest.mark.skip(reason="no GPU here")
def test_skipped():
    """M3: needs a GPU."""

def test_teardown(falls):
    """A2: fails after it passed."""

def test_setup(never):
    """C5: can't begin."""

@pytest.mark.xfail(reason="airflow#1", strict=True)
def test_known():
    """R4: a known bug."""
    assert False

def test_left_out():
    """K1: not of this run."""
'''


@pytest.fixture(scope="module", params=["", "-n2"])
def written(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a run of those tests, one of them deselected, leaves in its file: in one process, and in two."""
    folder = tmp_path_factory.mktemp("inner")
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "test_inner.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:randomly", "-k", "not left_out", "test_inner.py"]
    command += filter(None, [request.param])
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run(command, cwd=folder, env=environment, capture_output=True, timeout=60, check=False)
    found: dict[str, Any] = json.loads((folder / "evidence.json").read_text())
    return found


def entry(written: dict[str, Any], name: str) -> dict[str, Any]:
    found: dict[str, Any] = written["tests"][f"test_inner.py::{name}"]
    return found


@pytest.mark.parametrize(
    ("name", "outcome", "reason"),
    [
        ("test_good", "passed", ""),
        ("test_bad", "failed", "assert 1 == 2"),
        ("test_skipped", "skipped", "no GPU here"),
        ("test_teardown", "failed", "RuntimeError: cable pulled"),
        ("test_setup", "failed", "RuntimeError: no such server"),
        ("test_known", "skipped", "expected failure: airflow#1"),
        ("test_left_out", "skipped", "not selected for this run"),
    ],
)
def test_every_test_has_its_outcome_and_reason(written: dict[str, Any], name: str, outcome: str, reason: str) -> None:
    """A test is passed, failed or skipped, and says why it did not pass; a failing teardown counts as failed."""
    assert (entry(written, name)["outcome"], entry(written, name)["reason"]) == (outcome, reason)


def test_faults_are_summed_up(written: dict[str, Any]) -> None:
    """A fault that one test shows badly is failed; one whose tests did not run is skipped; in natural order."""
    assert list(written["faults"].items()) == [
        ("A2", "failed"), ("C5", "failed"), ("K1", "skipped"), ("L1", "failed"), ("M3", "skipped"),
        ("R4", "skipped"), ("R12", "passed"),
    ]


def test_counts_and_totals_are_kept(written: dict[str, Any]) -> None:
    """What tests added to the counters is there, and how many tests passed, failed and were skipped."""
    assert written["counts"] == {"requests": 7}
    assert written["totals"] == {"failed": 3, "passed": 1, "skipped": 3}


@pytest.mark.parametrize(
    ("docstring", "expected"),
    [
        ("L3: reply lost", ["L3"]),
        ("L3, R12 and A2: three at once", ["L3", "R12", "A2"]),
        ("\n    M10: on the next line", ["M10"]),
        ("R4. with a full stop", ["R4"]),
        ("Shows that L3 holds", []),
        ("L3 without a colon", []),
        ("HTTP2: no fault number", []),
        ("", []),
        (None, []),
    ],
)
def test_fault_numbers_stand_at_the_beginning(docstring: str | None, expected: list[str]) -> None:
    """Only numbers before the first colon or full stop are claims; a mention in the text is none."""
    assert faults_of(docstring) == expected


def test_a_failure_outweighs_and_a_skip_shows_nothing() -> None:
    """One word for several tests of one fault."""
    assert verdict_of(["passed", "failed", "skipped"]) == "failed"
    assert verdict_of(["skipped", "passed"]) == "passed"
    assert verdict_of(["skipped"]) == "skipped"
