"""The gate: promote, reject or not-enough-data, with reasons. Pure: the same evaluation and rules, the same verdict.

The questions come in rounds (see ``objections``); the first round that objects decides, with all its reasons.
Last comes quality: what the rules measure by (the AUC of a classifier, the mean reciprocal rank of a retriever) must
reach the threshold; it must not be worse than the champion's by more than the margin; and the candidate must not do
harm in a slice (see ``slices``). The second is a non-inferiority test: the lower end of a one-sided bootstrap interval
of the difference of both (see ``ranking``) must not lie below minus the margin.

The first model of all has no champion: thresholds alone decide (the bootstrap of the loop), and the report says so.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace

from airflow_provider_ragops.promotion import objections, slices
from airflow_provider_ragops.promotion.evaluation import Evaluation, JudgedVersion, Predictions
from airflow_provider_ragops.promotion.report import NOT_ENOUGH_DATA, PROMOTE, REJECT, GateReport, Verdict
from airflow_provider_ragops.promotion.rules import Rules
from airflow_provider_ragops.promotion.slices import SliceReport

Answer = tuple[Verdict, str]


def judge(evaluation: Evaluation, rules: Rules) -> GateReport:
    """Decide about the candidate of an evaluation."""
    numbers: dict[str, float] = {}
    candidate, champion, rows = evaluation.candidate, evaluation.champion, evaluation.predictions
    incomplete = tuple(objections.incomplete(evaluation))
    if incomplete or rows is None:
        return _report(NOT_ENOUGH_DATA, incomplete, evaluation, rules, numbers)
    rounds: tuple[tuple[Verdict, Iterator[str]], ...] = (
        (REJECT, objections.without_proof(candidate)),
        (NOT_ENOUGH_DATA, objections.too_little(rows, rules, numbers)),
        (REJECT, objections.unmeasured(candidate, rows, rules.measure)),
        (NOT_ENOUGH_DATA, objections.not_comparable(evaluation, rows, rules.measure)),
        (REJECT, objections.contradicted(candidate, champion, rows, rules.measure, numbers)),
    )
    for verdict, objected in rounds:
        if found := tuple(objected):
            return _report(verdict, found, evaluation, rules, numbers)
    groups = tuple(slices.judged(rows, rules, champion is not None))
    verdict, found = _quality(candidate, champion, rows, groups, rules, numbers)
    return replace(_report(verdict, found, evaluation, rules, numbers), slices=groups)


def _report(
    verdict: Verdict,
    reasons: tuple[str, ...],
    evaluation: Evaluation,
    rules: Rules,
    numbers: Mapping[str, float],
) -> GateReport:
    candidate, champion = evaluation.candidate, evaluation.champion
    return GateReport(
        verdict, reasons, candidate.version, champion.version if champion else None,
        candidate.run_id, champion.run_id if champion else "",
        {name: float(value) for name, value in numbers.items() if math.isfinite(value)}, rules=rules,
    )  # fmt: skip


def _quality(
    candidate: JudgedVersion,
    champion: JudgedVersion | None,
    rows: Predictions,
    groups: tuple[SliceReport, ...],
    rules: Rules,
    numbers: dict[str, float],
) -> tuple[Verdict, tuple[str, ...]]:
    found = list(_thresholds(candidate, rules, numbers))
    if champion is None:
        found.append((PROMOTE, "There is no champion yet: the first model is judged by the threshold alone."))
    else:
        found.append(_non_inferiority(candidate, champion, rows, rules, numbers))
        found += _slices(candidate, champion, groups, rules)
    verdict = next(each for each in (REJECT, NOT_ENOUGH_DATA, PROMOTE) if each in dict(found))
    return verdict, tuple(reason for each, reason in found if each == verdict)


def _thresholds(candidate: JudgedVersion, rules: Rules, numbers: Mapping[str, float]) -> Iterator[Answer]:
    for name, least in rules.thresholds.items():
        seen = numbers[f"candidate_{name}"]
        told = f"{rules.measure.titles[name]} of version {candidate.version} is {seen:.4f}"
        if seen < least:
            yield REJECT, f"{told}, below the threshold {least:.4f}."
        else:
            yield PROMOTE, f"{told}; the threshold is {least:.4f}."


def _non_inferiority(
    candidate: JudgedVersion,
    champion: JudgedVersion,
    rows: Predictions,
    rules: Rules,
    numbers: dict[str, float],
) -> Answer:
    import numpy as np

    measure = rules.measure
    differences = measure.differences(rows, samples=rules.samples, seed=rules.seed)
    if lacking := objections.not_finite(differences):
        return NOT_ENOUGH_DATA, (
            f"{lacking} of {rules.samples} resamples of {numbers[measure.units]:g} {measure.units} lack one class: "
            f"too few {measure.units} of it."
        )
    lower = float(np.quantile(differences, 1 - rules.confidence))
    difference = numbers[f"candidate_{measure.name}"] - numbers[f"champion_{measure.name}"]
    numbers.update(difference=difference, lower_bound=lower)
    told = (
        f"{measure.title} of version {candidate.version} minus champion {champion.version}: {difference:+.4f}, "
        f"at least {lower:+.4f} with {rules.confidence:.0%} confidence"
    )
    if lower < -rules.non_inferiority_margin:
        return REJECT, f"{told}: a loss of more than the margin {rules.non_inferiority_margin:.4f} is not ruled out."
    return PROMOTE, f"{told}; the margin is {rules.non_inferiority_margin:.4f}."


def _slices(
    candidate: JudgedVersion, champion: JudgedVersion, groups: tuple[SliceReport, ...], rules: Rules
) -> Iterator[Answer]:
    """An objection for each slice that lost; else, where there are slices, a word on them all."""
    lost = [each for each in groups if each.finding == "lost"]
    yield from ((REJECT, slices.objection(each, candidate.version, champion.version, rules)) for each in lost)
    if groups and not lost:
        held = sum(each.finding == "held" for each in groups)
        yield PROMOTE, (
            f"No loss of more than {rules.max_slice_loss:.4f} is shown in {held} groups of rows; "
            f"{len(groups) - held} have too few rows to tell."
        )
