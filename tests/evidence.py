"""A pytest plugin that writes what was shown: every test and fault number with its outcome, and counts.

A fault number (L1, R12, ... as in the catalogue of failure modes) stands at the beginning of a test's docstring:
``L3: ...`` or ``L3, R4: ...``. Tests add to the counts through the fixture ``evidence``.
"""

from __future__ import annotations

import inspect
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

FAULT = r"[A-Z]{1,2}\d{1,2}[a-z]?"
FAULTS = re.compile(rf"{FAULT}(?:\s*(?:,|/|\+|&|and)\s*{FAULT})*(?=\s*[:.])")


def faults_of(docstring: str | None) -> list[str]:
    """The fault numbers at the beginning of a docstring, in its order."""
    found = FAULTS.match((docstring or "").strip())
    return re.findall(FAULT, found.group()) if found else []


def verdict_of(outcomes: list[str]) -> str:
    """One word for a fault: a failure outweighs all, and a skipped test shows nothing."""
    return next((word for word in ("failed", "passed") if word in outcomes), "skipped")


def reason_of(report: pytest.TestReport) -> str:
    if hasattr(report, "wasxfail"):
        return f"expected failure: {report.wasxfail}"
    if report.skipped and isinstance(report.longrepr, tuple):
        return str(report.longrepr[2]).removeprefix("Skipped: ")
    crash = getattr(report.longrepr, "reprcrash", None)
    text = crash.message if crash else str(report.longrepr or "")
    return text.strip().splitlines()[0][:300] if text.strip() else ""


class Evidence:
    """Collects while the tests run; ``counts`` is what the fixture hands out."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.tests: dict[str, dict[str, Any]] = {}
        self.counts: Counter[str] = Counter()

    def pytest_itemcollected(self, item: pytest.Item) -> None:
        docstring = inspect.getdoc(getattr(item, "function", None)) if hasattr(item, "function") else None
        self.tests[item.nodeid] = {"faults": faults_of(docstring), "outcome": "not run", "reason": "", "seconds": 0.0}

    def pytest_deselected(self, items: list[pytest.Item]) -> None:
        for item in items:
            self.tests[item.nodeid].update(outcome="skipped", reason="not selected for this run")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.nodeid not in self.tests:
            return  # a worker of pytest-xdist collected it, and keeps its entry
        entry = self.tests[report.nodeid]
        entry["seconds"] = round(entry["seconds"] + report.duration, 3)
        # A teardown that fails spoils a test that passed; a call never mends a failed set-up.
        if report.when == "call" or report.outcome != "passed":
            entry.update(outcome=report.outcome, reason=reason_of(report))

    def pytest_testnodedown(self, node: Any) -> None:
        """Take over what a worker of pytest-xdist collected; the one that ran a test knows its outcome."""
        tests, counts = node.workeroutput.get("evidence", ({}, {})) if hasattr(node, "workeroutput") else ({}, {})
        for name, entry in tests.items():
            if self.tests.get(name, {"outcome": "not run"})["outcome"] == "not run":
                self.tests[name] = entry
        self.counts.update(counts)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if hasattr(session.config, "workeroutput"):
            session.config.workeroutput["evidence"] = (self.tests, dict(self.counts))
            return
        if self.path is None:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(json.dumps(self.summary(), indent=1) + "\n")

    def summary(self) -> dict[str, Any]:
        outcomes: dict[str, list[str]] = {}
        for entry in self.tests.values():
            for fault in entry["faults"]:
                outcomes.setdefault(fault, []).append(entry["outcome"])
        totals = Counter(entry["outcome"] for entry in self.tests.values())
        return {
            "totals": dict(sorted(totals.items())),
            "counts": dict(sorted(self.counts.items())),
            "faults": {fault: verdict_of(outcomes[fault]) for fault in sorted(outcomes, key=_natural)},
            "tests": dict(sorted(self.tests.items())),
        }


def _natural(fault: str) -> tuple[str, int, str]:
    found = re.fullmatch(r"([A-Z]+)(\d+)([a-z]?)", fault)
    assert found
    return found.group(1), int(found.group(2)), found.group(3)
