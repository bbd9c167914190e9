"""A verdict of the gate and why, for machines (JSON) and for people (text)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from airflow_provider_ragops.promotion.rules import GateRules, Rules
from airflow_provider_ragops.promotion.slices import SliceReport
from airflow_provider_ragops.promotion.table import as_table

Verdict = Literal["promote", "reject", "not-enough-data"]
PROMOTE: Verdict = "promote"
REJECT: Verdict = "reject"
NOT_ENOUGH_DATA: Verdict = "not-enough-data"


@dataclass(frozen=True)
class GateReport:
    """``numbers`` holds finite numbers only; what could not be computed is absent.

    ``candidate_run`` and ``champion_run`` are the training runs: a version's number may name another model later.
    """

    verdict: Verdict
    reasons: tuple[str, ...]
    candidate: str
    champion: str | None
    candidate_run: str = ""
    champion_run: str = ""
    numbers: Mapping[str, float] = field(default_factory=dict)
    slices: tuple[SliceReport, ...] = ()
    rules: Rules = field(default_factory=GateRules)

    def as_dict(self) -> dict[str, Any]:
        """The report as JSON-safe values."""
        rows = [each.as_dict() for each in self.slices]
        return {**asdict(replace(self, slices=())), "reasons": list(self.reasons), "slices": rows}

    def as_text(self) -> str:
        """The report for a task's log: numbers, reasons, and a table of the slices."""
        rows = [("verdict", self.verdict), ("candidate", self.candidate), ("champion", self.champion or "none")]
        rows += [(name.replace("_", " "), f"{value:.6g}") for name, value in self.numbers.items()]
        lines = [*(f"{name:<22} {value}" for name, value in rows), *(f"- {each}" for each in self.reasons)]
        return "\n".join([*lines, *filter(None, [as_table([each.as_row() for each in self.slices])])])
