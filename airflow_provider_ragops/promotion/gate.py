"""The gate: promote, reject or not-enough-data, with reasons. Pure: the same evaluation and rules, the same verdict.

The questions come in rounds (see ``objections``); the first round that objects decides, with all its reasons.
Last comes quality: the candidate's AUC must reach the threshold, and it must not be worse than the champion by
more than the margin. The second is a non-inferiority test: the lower end of a one-sided bootstrap interval of
the difference of both AUCs (see ``ranking``) must not lie below minus the margin.

The first model of all has no champion: thresholds alone decide (the bootstrap of the loop), and the report says so.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from airflow_provider_ragops.exceptions import ConfigurationError
from airflow_provider_ragops.promotion import objections
from airflow_provider_ragops.promotion.evaluation import Evaluation, JudgedVersion, Predictions
from airflow_provider_ragops.promotion.ranking import auc_differences

Verdict = Literal["promote", "reject", "not-enough-data"]
PROMOTE: Verdict = "promote"
REJECT: Verdict = "reject"
NOT_ENOUGH_DATA: Verdict = "not-enough-data"


@dataclass(frozen=True)
class GateRules:
    """What a candidate must reach. AUCs lie in [0, 1]; ``confidence`` is one-sided; ``samples`` are resamples.

    :raises ConfigurationError: when a value is impossible.
    """

    min_auc: float = 0.7
    non_inferiority_margin: float = 0.01
    confidence: float = 0.95
    min_rows: int = 200
    samples: int = 500
    seed: int = 20260101

    def __post_init__(self) -> None:
        # `not (low <= x <= high)` refuses NaN as well.
        for name, low, high in (
            ("min_auc", 0.0, 1.0),
            ("non_inferiority_margin", 0.0, 1.0),
            ("confidence", 0.5, 0.999),
            ("min_rows", 2, math.inf),
            ("samples", 100, 100_000),
        ):
            value = getattr(self, name)
            if not low <= value <= high:
                raise ConfigurationError(
                    f"gate rule {name}", expected=f"a number in [{low:g}, {high:g}]", seen=repr(value),
                    action="Correct the parameter of the gate.",
                )  # fmt: skip


@dataclass(frozen=True)
class GateReport:
    """A verdict and why. ``numbers`` holds finite numbers only; what could not be computed is absent."""

    verdict: Verdict
    reasons: tuple[str, ...]
    candidate: str
    champion: str | None
    numbers: Mapping[str, float] = field(default_factory=dict)
    rules: GateRules = field(default_factory=GateRules)

    def as_dict(self) -> dict[str, Any]:
        """The report as JSON-safe values."""
        return {**asdict(self), "reasons": list(self.reasons), "numbers": dict(self.numbers)}

    def as_text(self) -> str:
        """The report as a table for a task's log."""
        rows = [("verdict", self.verdict), ("candidate", self.candidate), ("champion", self.champion or "none")]
        rows += [(name.replace("_", " "), f"{value:.6g}") for name, value in self.numbers.items()]
        return "\n".join([*(f"{name:<22} {value}" for name, value in rows), *(f"- {each}" for each in self.reasons)])


def judge(evaluation: Evaluation, rules: GateRules) -> GateReport:
    """Decide about the candidate of an evaluation."""
    numbers: dict[str, float] = {}
    candidate, champion, rows = evaluation.candidate, evaluation.champion, evaluation.predictions
    incomplete = tuple(objections.incomplete(evaluation))
    if incomplete or rows is None:
        return _report(NOT_ENOUGH_DATA, incomplete, evaluation, rules, numbers)
    rounds: tuple[tuple[Verdict, Iterator[str]], ...] = (
        (REJECT, objections.without_proof(candidate)),
        (NOT_ENOUGH_DATA, objections.too_little(rows, rules.min_rows, numbers)),
        (REJECT, objections.unmeasured(candidate, rows)),
        (NOT_ENOUGH_DATA, objections.not_comparable(evaluation, rows)),
        (REJECT, objections.contradicted(candidate, champion, rows, numbers)),
    )
    for verdict, objected in rounds:
        if found := tuple(objected):
            return _report(verdict, found, evaluation, rules, numbers)
    verdict, found = _quality(candidate, champion, rows, rules, numbers)
    return _report(verdict, found, evaluation, rules, numbers)


def _report(
    verdict: Verdict,
    reasons: tuple[str, ...],
    evaluation: Evaluation,
    rules: GateRules,
    numbers: Mapping[str, float],
) -> GateReport:
    champion = evaluation.champion.version if evaluation.champion else None
    finite = {name: float(value) for name, value in numbers.items() if math.isfinite(value)}
    return GateReport(verdict, reasons, evaluation.candidate.version, champion, finite, rules)


def _quality(
    candidate: JudgedVersion,
    champion: JudgedVersion | None,
    rows: Predictions,
    rules: GateRules,
    numbers: dict[str, float],
) -> tuple[Verdict, tuple[str, ...]]:
    found = [_threshold(candidate, rules, numbers)]
    if champion is None:
        found.append((PROMOTE, "There is no champion yet: the first model is judged by the threshold alone."))
    else:
        found.append(_non_inferiority(candidate, champion, rows, rules, numbers))
    verdict = next((each for each, _ in found if each == REJECT), found[-1][0])
    return verdict, tuple(reason for each, reason in found if each == verdict)


def _threshold(candidate: JudgedVersion, rules: GateRules, numbers: Mapping[str, float]) -> tuple[Verdict, str]:
    seen = numbers["candidate_auc"]
    if seen < rules.min_auc:
        return REJECT, f"AUC of version {candidate.version} is {seen:.4f}, below the threshold {rules.min_auc:.4f}."
    return PROMOTE, f"AUC of version {candidate.version} is {seen:.4f}; the threshold is {rules.min_auc:.4f}."


def _non_inferiority(
    candidate: JudgedVersion,
    champion: JudgedVersion,
    rows: Predictions,
    rules: GateRules,
    numbers: dict[str, float],
) -> tuple[Verdict, str]:
    import numpy as np

    differences = auc_differences(
        rows.users, rows.labels, rows.candidate, rows.champion, samples=rules.samples, seed=rules.seed
    )
    if lacking := objections.not_finite(differences):
        return NOT_ENOUGH_DATA, (
            f"{lacking} of {rules.samples} resamples of {numbers['users']:g} users lack one class: too few users of it."
        )
    lower = float(np.quantile(differences, 1 - rules.confidence))
    difference = numbers["candidate_auc"] - numbers["champion_auc"]
    numbers.update(difference=difference, lower_bound=lower)
    told = (
        f"AUC of version {candidate.version} minus champion {champion.version}: {difference:+.4f}, "
        f"at least {lower:+.4f} with {rules.confidence:.0%} confidence"
    )
    if lower < -rules.non_inferiority_margin:
        return REJECT, f"{told}: a loss of more than the margin {rules.non_inferiority_margin:.4f} is not ruled out."
    return PROMOTE, f"{told}; the margin is {rules.non_inferiority_margin:.4f}."
