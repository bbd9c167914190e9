"""What can be wrong with an evaluation, before quality is even a question. Each function yields its objections.

Where a function gets ``numbers``, it adds what it computed, for the report.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from airflow_provider_ragops.promotion.evaluation import Evaluation, JudgedVersion, Predictions
from airflow_provider_ragops.promotion.measures import Measure
from airflow_provider_ragops.promotion.rules import Rules

_TOLERANCE = 1e-4  # predictions may be stored with less precision than they were measured with


def incomplete(evaluation: Evaluation) -> Iterator[str]:
    if not evaluation.completed:
        yield f"Evaluation run {evaluation.run_id} is not FINISHED with a completion marker."
    if evaluation.predictions is None:
        yield f"Evaluation run {evaluation.run_id} left no readable predictions."


def without_proof(candidate: JudgedVersion) -> Iterator[str]:
    if not candidate.completed:
        yield f"Version {candidate.version} has no completion marker of a FINISHED training run."
    if candidate.quarantined:
        yield f"Version {candidate.version} is quarantined: {candidate.quarantined}"
    yield from mismeasured(candidate)


def mismeasured(version: JudgedVersion) -> Iterator[str]:
    """The evaluation must be about this very version and the split that it was trained with."""
    measured = version.measured
    if str(measured.get("version")) != version.version:
        yield f"The evaluation measured version {measured.get('version')}, not version {version.version}."
    elif not version.run_id or measured.get("run_id") != version.run_id:
        yield (
            f"The evaluation measured version {version.version} of run {measured.get('run_id')}, but that number now "
            f"names the model of run {version.run_id or None}: the registered model was deleted and made anew."
        )
    if not version.split_id or measured.get("split_id") != version.split_id:
        yield (
            f"Version {version.version} was trained with split {version.split_id}, "
            f"but measured with split {measured.get('split_id')}."
        )


def too_little(rows: Predictions, rules: Rules, numbers: dict[str, float]) -> Iterator[str]:
    import numpy as np

    total, positives = len(rows.labels), int((rows.labels == 1).sum())
    numbers.update({"rows": total, rules.measure.units: len(np.unique(rows.users))})
    if total < rules.min_rows:
        yield f"{total} held-out rows; at least {rules.min_rows} are needed."
    if rules.measure.classes:
        numbers["positives"] = positives
        yield from _without_classes(total, positives, int((rows.labels == 0).sum()))


def _without_classes(total: int, positives: int, negatives: int) -> Iterator[str]:
    if unknown := total - positives - negatives:
        yield f"{unknown} of {total} labels are neither 0 nor 1."
    elif total and positives in (0, total):
        yield f"All {total} labels are {int(positives > 0)}: with a single class no AUC exists."


def unmeasured(candidate: JudgedVersion, rows: Predictions, measure: Measure) -> Iterator[str]:
    for name in measure.reported:
        if not math.isfinite(candidate.metric(name)):
            yield f"Metric {name} of version {candidate.version} is {candidate.measured.get(name)}, not a number."
    if bad := not_finite(rows.candidate):
        yield f"Version {candidate.version} gave no number for {bad} of {len(rows.labels)} rows."


def not_comparable(evaluation: Evaluation, rows: Predictions, measure: Measure) -> Iterator[str]:
    candidate, champion = evaluation.candidate, evaluation.champion
    if champion is None:
        yield from _champion_missing(evaluation)
        return
    if champion.split_id != candidate.split_id:
        yield (
            f"Champion {champion.version} was trained with split {champion.split_id}, version "
            f"{candidate.version} with {candidate.split_id}: the champion may have seen the held-out rows."
        )
        return
    yield from mismeasured(champion)
    if error := champion.measured.get("error"):
        yield f"Champion {champion.version} could not be scored on these rows: {error}"
    if not math.isfinite(champion.metric(name := measure.name)):
        yield f"Metric {name} of champion {champion.version} is {champion.measured.get(name)}, not a number."
    if bad := not_finite(rows.champion):
        yield f"Champion {champion.version} gave no number for {bad} of {len(rows.labels)} rows."


def _champion_missing(evaluation: Evaluation) -> Iterator[str]:
    if evaluation.measured_champion:
        yield f"The evaluation measured champion {evaluation.measured_champion}, but the gate was told of none."
    elif evaluation.served:
        yield (
            f"The champion has no version: its alias names none, but version {evaluation.served} was released and "
            "serves. The version or its alias was deleted: set the alias again, or release another version by hand."
        )


def contradicted(
    candidate: JudgedVersion,
    champion: JudgedVersion | None,
    rows: Predictions,
    measure: Measure,
    numbers: dict[str, float],
) -> Iterator[str]:
    """What was reported must follow from the rows: a gate that believes a number can be told any number."""
    found = [("candidate", candidate, rows.candidate)]
    found += [("champion", champion, rows.champion)] if champion else []
    for role, version, scores in found:
        values = {name: compute(rows.labels, scores) for name, compute in measure.computed.items()}
        numbers.update({f"{role}_{name}": value for name, value in values.items()})
        yield from _contradicted(version, len(rows.labels), values, measure)


def _contradicted(
    version: JudgedVersion, rows: int, values: Mapping[str, float], measure: Measure
) -> Iterator[str]:
    for name, seen in values.items():
        # A number that is none contradicts whatever was reported: every comparison with NaN is false.
        if not abs(seen - version.metric(name)) <= _TOLERANCE:
            yield (
                f"{measure.titles.get(name, name)} of version {version.version} was reported as "
                f"{version.metric(name):.4f}, but its {rows} predictions give {seen:.4f}."
            )
    if version.metric("rows") != rows:
        yield (
            f"Version {version.version} was measured on {version.measured.get('rows')} rows, "
            f"but {rows} predictions were kept."
        )


def not_finite(values: Any) -> int:
    """How many values are NaN or infinite."""
    import numpy as np

    return int((~np.isfinite(values)).sum())
