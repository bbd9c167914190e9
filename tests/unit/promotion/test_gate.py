from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from airflow_provider_ragops.exceptions import ConfigurationError
from airflow_provider_ragops.promotion.evaluation import Evaluation, Predictions
from airflow_provider_ragops.promotion.gate import judge
from airflow_provider_ragops.promotion.rules import GateRules
from tests.unit.promotion.evaluations import evaluation, predictions, with_measured

RULES = GateRules()


def _candidate(**changes: object) -> Evaluation:
    found = evaluation()
    return replace(found, candidate=replace(found.candidate, **changes))


def _champion(**changes: object) -> Evaluation:
    found = evaluation()
    assert found.champion
    return replace(found, champion=replace(found.champion, **changes))


def _reported(role: str, **changes: object) -> Evaluation:
    found = evaluation()
    return replace(found, **{role: with_measured(getattr(found, role), **changes)})


def _rows(change: Callable[[Predictions], Predictions]) -> Evaluation:
    return evaluation(change(predictions()))


def _with_value(values: np.ndarray, index: int, value: float) -> np.ndarray:
    changed = values.astype(np.float64)
    changed[index] = value
    return changed


CASES: dict[str, tuple[Evaluation, str, str]] = {
    # name: evaluation, verdict, what a reason must say
    "equal models": (evaluation(), "promote", "minus champion 1: +0.0000, at least +0.0000 with 95% confidence"),
    "a bit of noise": (evaluation(predictions(noise=0.05)), "promote", "the margin is 0.0100"),
    "clearly worse": (evaluation(predictions(noise=3.0)), "reject", "a loss of more than the margin 0.0100"),
    "first model": (evaluation(champion=False), "promote", "no champion yet"),
    "evaluation unfinished": (evaluation(completed=False), "not-enough-data", "run-1 is not FINISHED"),
    "no predictions": (replace(evaluation(), predictions=None), "not-enough-data", "left no readable predictions"),
    "no marker": (_candidate(completed=False), "reject", "Version 2 has no completion marker"),
    "quarantined": (_candidate(quarantined="bad answers"), "reject", "Version 2 is quarantined: bad answers"),
    "other version measured": (_reported("candidate", version="9"), "reject", "measured version 9, not version 2"),
    "candidate made anew": (
        _reported("candidate", run_id="run-of-old"),
        "reject", "version 2 of run run-of-old, but that number now names the model of run run-of-2",
    ),
    "measured without a run": (_reported("candidate", run_id=None), "reject", "measured version 2 of run None"),
    "registered without a run": (_candidate(run_id=""), "reject", "names the model of run None"),
    "nothing measured": (_candidate(measured={}), "reject", "measured version None"),
    "other split measured": (_reported("candidate", split_id="s9"), "reject", "split s1, but measured with split s9"),
    "AUC is NaN": (_reported("candidate", auc=math.nan), "reject", "Metric auc of version 2 is nan"),
    "AUC is null": (_reported("candidate", auc=None), "reject", "Metric auc of version 2 is None"),
    "log loss infinite": (_reported("candidate", log_loss=math.inf), "reject", "Metric log_loss of version 2 is inf"),
    "AUC invented": (_reported("candidate", auc=0.99), "reject", "0.9900, but its 900 predictions give 0.8480"),
    "rows invented": (_reported("candidate", rows=5), "reject", "measured on 5 rows, but 900 predictions"),
    "champion's AUC invented": (_reported("champion", auc=0.1), "reject", "version 1 was reported as 0.1000"),
    "NaN prediction": (
        _rows(lambda rows: replace(rows, candidate=_with_value(rows.candidate, 3, math.nan))),
        "reject", "gave no number for 1 of 900 rows",
    ),
    "champion's NaN prediction": (
        _rows(lambda rows: replace(rows, champion=_with_value(rows.champion, 3, math.nan))),
        "not-enough-data", "Champion 1 gave no number for 1 of 900 rows",
    ),
    "champion's AUC is NaN": (_reported("champion", auc=math.nan), "not-enough-data", "champion 1 is nan"),
    "champion refuses the rows": (
        _reported("champion", auc=None, rows=0, error="no feature x"),
        "not-enough-data", "Champion 1 could not be scored on these rows: no feature x",
    ),
    "champion of another split": (_champion(split_id="s0"), "not-enough-data", "may have seen the held-out rows"),
    "champion never measured": (_champion(measured={}), "not-enough-data", "measured version None, not version 1"),
    "champion made anew": (
        _champion(run_id="run-of-new"),
        "not-enough-data", "version 1 of run run-of-1, but that number now names the model of run run-of-new",
    ),
    "champion's version deleted": (
        evaluation(champion=False, served="1"),
        "not-enough-data", "The champion has no version: its alias names none, but version 1 was released",
    ),
    "champion kept from the gate": (
        evaluation(champion=False, measured_champion="1"), "not-enough-data", "measured champion 1, but the gate",
    ),
    "no rows": (
        _rows(lambda rows: Predictions(rows.users[:0], rows.labels[:0], rows.candidate[:0], rows.champion[:0])),
        "not-enough-data", "0 held-out rows; at least 200 are needed",
    ),
    "few rows": (evaluation(predictions(users=50)), "not-enough-data", "150 held-out rows; at least 200"),
    "single class": (
        _rows(lambda rows: replace(rows, labels=np.ones_like(rows.labels))),
        "not-enough-data", "All 900 labels are 1: with a single class no AUC exists",
    ),
    "strange label": (
        _rows(lambda rows: replace(rows, labels=_with_value(rows.labels, 0, 7.0))),
        "not-enough-data", "1 of 900 labels are neither 0 nor 1",
    ),
    "one positive user": (
        _rows(lambda rows: replace(rows, labels=(np.arange(900) == 1).astype(np.int64))),
        "not-enough-data", "resamples of 300 users lack one class",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("judged", "verdict", "reason"), CASES.values(), ids=CASES.keys())
def test_verdict(judged: Evaluation, verdict: str, reason: str) -> None:
    """M6, M7, M10, K1: every state of an evaluation has one verdict, with a reason that names the numbers."""
    report = judge(judged, GateRules(min_auc=0.0) if verdict == "not-enough-data" else RULES)

    assert report.verdict == verdict
    assert reason in "\n".join(report.reasons)
    assert json.dumps(report.as_dict(), allow_nan=False)


def test_the_threshold_holds_for_the_first_model_too() -> None:
    """M10: without a champion the threshold alone decides, and it does decide."""
    report = judge(evaluation(champion=False), GateRules(min_auc=0.95))

    assert report.verdict == "reject"
    assert report.reasons == ("AUC of version 2 is 0.8480, below the threshold 0.9500.",)


def test_all_reasons_of_a_rejection_are_told() -> None:
    """A candidate that fails threshold and comparison is told both."""
    report = judge(evaluation(predictions(noise=3.0)), GateRules(min_auc=0.9))

    assert report.verdict == "reject"
    assert len(report.reasons) == 2


def test_same_evaluation_gives_the_same_report() -> None:
    """The gate is a function: its bootstrap draws the same resamples every time."""
    judged = evaluation(predictions(noise=0.3))

    assert judge(judged, RULES) == judge(judged, RULES)
    assert judge(judged, RULES).numbers["lower_bound"] != judge(judged, GateRules(seed=1)).numbers["lower_bound"]


def test_uncertainty_decides_not_the_estimate() -> None:
    """A loss below the margin on few users is refused as long as a larger one is not ruled out; on many it passes."""
    few, many = (judge(evaluation(predictions(noise=0.2, users=users)), RULES) for users in (70, 3000))

    assert abs(few.numbers["difference"]) < RULES.non_inferiority_margin
    assert (few.verdict, many.verdict) == ("reject", "promote")


def test_margin_decides() -> None:
    """The same loss is refused under a narrow margin and accepted under a wide one."""
    judged = evaluation(predictions(noise=0.7))

    assert judge(judged, GateRules(non_inferiority_margin=0.001)).verdict == "reject"
    assert judge(judged, GateRules(non_inferiority_margin=0.2)).verdict == "promote"


@pytest.mark.parametrize(
    ("rule", "value"),
    [
        ("max_slice_loss", -0.1), ("max_slice_loss", 1.1), ("min_slice_rows", 19),
        ("min_auc", 1.2), ("min_auc", math.nan), ("non_inferiority_margin", -0.1), ("confidence", 0.2),
        ("confidence", 1.0), ("min_rows", 1), ("samples", 10), ("samples", 10**9),
    ],
)  # fmt: skip
def test_impossible_rules_are_refused(rule: str, value: float) -> None:
    """A rule that can't work is refused before anything is judged, with the offending value."""
    with pytest.raises(ConfigurationError, match=f"gate rule {rule}: .*saw {value!r}"):
        GateRules(**{rule: value})


def test_the_report_reads_as_a_table() -> None:
    """The task's log shows verdict, numbers and reasons on lines of their own."""
    lines = judge(evaluation(), RULES).as_text().splitlines()

    assert lines[0].split() == ["verdict", "promote"]
    assert any(line.split() == ["rows", "900"] for line in lines)
    assert lines[-1].startswith("- AUC of version 2 minus champion 1")
