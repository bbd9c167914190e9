from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from airflow_provider_ragops.promotion.evaluation import Predictions
from airflow_provider_ragops.promotion.gate import judge
from airflow_provider_ragops.promotion.report import GateReport
from airflow_provider_ragops.promotion.rules import GateRules
from tests.unit.promotion.evaluations import ROWS_PER_USER, evaluation, predictions

RULES = GateRules(min_slice_rows=200, non_inferiority_margin=0.2)  # the whole passes: only slices can object


def _sliced(rows: Predictions, **groups: Any) -> Predictions:
    return replace(rows, slices={name: np.asarray(group) for name, group in groups.items()})


def _harmed(share: float = 0.25, noise: float = 3.0, users: int = 1200) -> Predictions:
    """The candidate is the champion, but for the newest users, where it is hardly better than a guess."""
    rows = predictions(users=users)
    new = rows.users < share * users
    random = np.random.default_rng(11)
    candidate = np.where(new, rows.candidate + random.normal(scale=noise, size=len(new)), rows.candidate)
    return _sliced(replace(rows, candidate=candidate), tenure=np.where(new, "new", "old"))


def _judged(rows: Predictions, rules: GateRules = RULES, **changes: Any) -> GateReport:
    return judge(evaluation(rows, **changes), rules)


def _finding(report: GateReport) -> dict[str, str]:
    return {f"{each.slice}={each.group}": each.finding for each in report.slices}


def test_harm_in_a_slice_rejects_and_is_named() -> None:
    """A candidate that passes on the whole and fails one group of users is rejected, naming slice and numbers."""
    rows = _harmed()

    report = _judged(rows)

    assert _judged(replace(rows, slices={})).verdict == "promote"
    assert report.verdict == "reject"
    (reason,) = report.reasons
    assert reason.startswith("In slice tenure, group 'new' (900 rows), AUC of version 2 minus champion 1: -0.")
    assert reason.endswith("with 95% confidence: a loss of more than 0.0500.")
    assert _finding(report) == {"tenure=new": "lost", "tenure=old": "held"}
    lost, held = report.slices
    assert lost.lower_bound < lost.difference < lost.upper_bound < -RULES.max_slice_loss  # type: ignore[operator]
    assert (held.difference, lost.rows + held.rows, lost.users) == (0.0, 3600, 300)
    assert (lost.candidate or 1) < (held.candidate or 0)


def test_equal_models_hold_in_every_slice() -> None:
    """The report says how many groups were looked at, and that none objects."""
    rows = predictions()
    report = _judged(_sliced(rows, tenure=np.where(rows.users < 150, "new", "old")))

    assert report.verdict == "promote"
    told = "No loss of more than 0.0500 is shown in 2 groups of rows; 0 have too few rows to tell."
    assert report.reasons[-1] == told


@pytest.mark.parametrize(
    ("share", "groups", "why"),
    [
        (0.05, {}, "180 rows of 60 users are fewer than 200"),
        (0.25, {"labels": 1}, "a group of one class has no AUC"),
        (0.006, {"repeat": 60}, "enough rows, but of 7 users only: resampling them says nothing"),
    ],
    ids=["few rows", "one class", "few users"],
)
def test_a_slice_with_too_little_decides_nothing(share: float, groups: dict[str, int], why: str) -> None:
    """A group that is too small for a verdict is shown as such and does not reject, however bad it looks."""
    rows = _harmed(share)
    new = rows.slices["tenure"] == "new"
    if "labels" in groups:
        rows = replace(rows, labels=np.where(new, 1, rows.labels))
    if "repeat" in groups:
        times = np.where(new, groups["repeat"], 1)
        arrays = (np.repeat(each, times) for each in (rows.users, rows.labels, rows.candidate, rows.champion))
        rows = _sliced(Predictions(*arrays), tenure=np.repeat(rows.slices["tenure"], times))

    report = _judged(rows, replace(RULES, non_inferiority_margin=1.0))

    assert report.verdict == "promote", why
    assert _finding(report) == {"tenure=new": "too few", "tenure=old": "held"}
    assert report.reasons[-1].endswith("shown in 1 groups of rows; 1 have too few rows to tell.")


def test_the_margin_of_slices_decides() -> None:
    """The same harm passes under a wide margin; a margin of 1 switches the rule off."""
    rows = _harmed(noise=1.0)

    assert _judged(rows, replace(RULES, max_slice_loss=0.02)).verdict == "reject"
    assert _judged(rows, replace(RULES, max_slice_loss=0.3)).verdict == "promote"
    assert _judged(_harmed(noise=99), replace(RULES, max_slice_loss=1)).verdict == "promote"


def test_harm_must_be_shown_not_ruled_out() -> None:
    """A slice whose estimate is beyond the margin, but not surely, does not object: chance must not stop releases."""
    report = _judged(_harmed(share=0.06, noise=1.2), replace(RULES, max_slice_loss=0.05))

    new = report.slices[0]
    assert (new.difference or 0) < -0.05 < (new.upper_bound or 0)
    assert (new.finding, report.verdict) == ("held", "promote")


def test_equal_candidates_are_not_rejected_by_chance(evidence: Counter[str]) -> None:
    """Many slices, no real difference: no rejection in 60 candidates, where asking every group to rule a loss of
    the margin out would have rejected most of them."""
    random, rules = np.random.default_rng(12), replace(RULES, min_slice_rows=100, samples=100)
    rows = predictions(users=400)
    groups = {f"s{number}": random.integers(0, 8, 400)[rows.users] for number in range(2)}
    rejected = would_be = 0
    for _ in range(60):
        scores = [rows.champion + random.normal(scale=0.7, size=len(rows.champion)) for _ in range(2)]
        report = _judged(_sliced(replace(rows, candidate=scores[0], champion=scores[1]), **groups), rules)
        rejected += report.verdict == "reject"
        would_be += any((each.lower_bound or 0) < -rules.max_slice_loss for each in report.slices)
    evidence["schedules"] += 60

    assert all(each.finding == "held" for each in report.slices)
    assert len(report.slices) == 16
    assert (rejected, would_be > 30) == (0, True)


def test_slices_add_to_the_other_reasons() -> None:
    """A candidate below the threshold that also harms a slice is told both."""
    report = _judged(_harmed(), replace(RULES, min_auc=0.99))

    assert report.verdict == "reject"
    assert [each.split()[0] for each in report.reasons] == ["AUC", "In"]


def test_slices_do_not_make_up_for_the_whole() -> None:
    """Where the comparison on the whole has too few users of a class, slices without objections change nothing."""
    rows = predictions()
    rows = replace(rows, labels=(np.arange(len(rows.labels)) == 1).astype(np.int64))

    report = _judged(_sliced(rows, half=rows.users % 2), replace(RULES, min_auc=0.0))

    assert report.verdict == "not-enough-data"
    assert set(_finding(report).values()) == {"too few"}


def test_a_first_model_has_slices_to_look_at() -> None:
    """Without a champion the groups show the candidate's AUC and decide nothing."""
    rows = predictions(champion=False)
    report = _judged(_sliced(rows, tenure=np.where(rows.users < 150, "new", "old")), champion=False)

    assert report.verdict == "promote"
    assert _finding(report) == {"tenure=new": "no champion", "tenure=old": "no champion"}
    assert all(each.candidate and each.champion is None for each in report.slices)


def test_the_report_is_json_and_a_table() -> None:
    """Every number of every group is in the JSON, and a person reads one line per group in the log."""
    rows = _harmed(share=0.02)
    report = _judged(_sliced(rows, **rows.slices, weekday=rows.users % 3))

    found = json.loads(json.dumps(report.as_dict(), allow_nan=False))
    assert {(each["slice"], each["group"]) for each in found["slices"]} == {
        ("tenure", "new"), ("tenure", "old"), ("weekday", "0"), ("weekday", "1"), ("weekday", "2"),
    }  # fmt: skip
    assert set(found["slices"][0]) == {
        "slice", "group", "finding", "rows", "users", "positives", "candidate_auc", "champion_auc", "difference",
        "lower_bound", "upper_bound",
    }  # fmt: skip
    assert found["rules"]["max_slice_loss"] == 0.05
    heading, *lines = report.as_text().splitlines()[-6:]
    assert heading.split() == [
        "slice", "group", "rows", "users", "positives", "candidate", "champion", "difference", "interval", "finding",
    ]  # fmt: skip
    assert lines[0].split()[:3] == ["tenure", "new", str(24 * ROWS_PER_USER)]
    assert lines[0].endswith("too few")
    assert lines[1].split()[:3] == ["tenure", "old", str(1176 * ROWS_PER_USER)]
