"""The gate over a retriever: the same rounds and comparison, by the reciprocal rank of each question."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from airflow_provider_ragops.exceptions import ConfigurationError
from airflow_provider_ragops.promotion.evaluation import Evaluation, JudgedVersion, Predictions
from airflow_provider_ragops.promotion.gate import judge
from airflow_provider_ragops.promotion.measures import MRR
from airflow_provider_ragops.promotion.ranking import mean_differences
from airflow_provider_ragops.promotion.rules import GateRules, RetrievalRules
from airflow_provider_ragops.workloads.rag.metrics import NAMES, summary

RULES = RetrievalRules()
MODULES, QUESTIONS = 100, 6


def rows(worse: float = 0.0, champion: bool = True, modules: int = MODULES) -> Predictions:
    """Questions of modules; most find their passage first; ``worse`` is the share that finds it tenth instead."""
    random = np.random.default_rng(3)
    names = np.repeat([f"library.module{number}" for number in range(modules)], QUESTIONS)
    found = 1.0 / random.choice([1, 2, 3, 20], size=len(names), p=[0.6, 0.2, 0.1, 0.1])
    candidate = np.where(random.random(len(names)) < worse, 0.1, found)
    return Predictions(
        names, np.ones(len(names)), candidate, found if champion else np.full(len(names), np.nan),
    )  # fmt: skip


def evaluation(of: Predictions, champion: bool = True, **reported: Any) -> Evaluation:
    """A complete evaluation of candidate 2 against champion 1; ``reported`` is what is told of the candidate."""
    candidate, judged = (
        JudgedVersion(version, f"run-of-{version}", True, "s1", None, {
            "version": version, "run_id": f"run-of-{version}", "split_id": "s1", "rows": len(scores),
            **summary(scores), "error": None, **(reported if version == "2" else {}),
        })
        for version, scores in (("2", of.candidate), ("1", of.champion))
    )  # fmt: skip
    return Evaluation("run-1", True, candidate, judged if champion else None, of, "1" if champion else None)


CASES = {
    "equal": (evaluation(rows()), "promote", "MRR of version 2 minus champion 1: +0.0000, at least +0.0000 with 95%"),
    "much worse": (evaluation(rows(worse=0.5)), "reject", "a loss of more than the margin 0.0200 is not ruled out"),
    "first": (evaluation(rows(champion=False), champion=False), "promote", "no champion yet"),
    "few": (evaluation(rows(modules=20)), "not-enough-data", "120 held-out rows; at least 200 are needed"),
    "invented": (evaluation(rows(), mrr=0.99), "reject", "MRR of version 2 was reported as 0.9900, but its 600"),
    "recall invented": (evaluation(rows(), recall_at_10=0.99), "reject", "recall_at_10 of version 2 was reported"),
    "not measured": (evaluation(rows(), recall_at_5=None), "reject", "Metric recall_at_5 of version 2 is None"),
    "a classifier's": (evaluation(rows(), auc=0.9, mrr=None), "reject", "Metric mrr of version 2 is None"),
}  # fmt: skip


@pytest.mark.parametrize(("judged", "verdict", "reason"), CASES.values(), ids=CASES.keys())
def test_verdict(judged: Evaluation, verdict: str, reason: str) -> None:
    """M10: every state of a retriever's evaluation has one verdict, with a reason that names the numbers."""
    report = judge(judged, RULES)

    assert report.verdict == verdict
    assert reason in "\n".join(report.reasons)
    assert json.dumps(report.as_dict(), allow_nan=False)


def test_thresholds_by_name() -> None:
    """M10: each metric with a threshold must reach it, for the first model too; all that do not are told."""
    first = evaluation(rows(worse=1.0, champion=False), champion=False)
    low = judge(first, RULES)
    assert low.verdict == "reject"
    assert low.reasons == (
        "MRR of version 2 is 0.1000, below the threshold 0.5000.",
        "Recall at 5 of version 2 is 0.0000, below the threshold 0.6000.",
    )
    assert judge(first, RetrievalRules(min_mrr=0.1, min_recall_at_5=0.01)).reasons == (
        "Recall at 5 of version 2 is 0.0000, below the threshold 0.0100.",
    )
    assert judge(first, RetrievalRules(min_mrr=0.0, min_recall_at_5=0.0)).verdict == "promote"


def test_numbers_follow_from_the_rows() -> None:
    """The report's numbers are the workload's metrics, computed again from the rows; modules are counted, not users."""
    numbers = judge(evaluation(rows(worse=0.1)), RULES).numbers
    expected = summary(rows(worse=0.1).candidate)
    assert {name: numbers[f"candidate_{name}"] for name in NAMES} == pytest.approx(expected)
    assert (numbers["rows"], numbers["modules"]) == (600, 100)
    assert "users" not in numbers
    assert "positives" not in numbers


def test_whole_modules_are_resampled() -> None:
    """A module's questions are alike: where whole modules differ, the interval is as wide as for modules alone."""
    modules = np.repeat(np.arange(50), 20)
    loss = np.random.default_rng(1).normal(size=50)[modules]
    drawn = mean_differences(modules, modules, loss, np.zeros(1000), samples=500, seed=5)
    alone = mean_differences(np.arange(50), np.arange(50), loss[::20], np.zeros(50), samples=500, seed=5)
    assert drawn == pytest.approx(alone)
    rows_drawn = mean_differences(np.arange(1000), modules, loss, np.zeros(1000), samples=500, seed=5)
    assert drawn.std() > 3 * rows_drawn.std()


def test_a_slice_that_loses_objects() -> None:
    """M10: questions of one library may not get much worse; the report has the measure's names."""
    base = rows(modules=200)
    library = np.where(np.arange(len(base.users)) < 600, "numpy", "policy")
    harmed = replace(base, candidate=np.where(library == "policy", 0.2, base.candidate), slices={"library": library})
    report = judge(evaluation(harmed), RetrievalRules(min_mrr=0.0, min_recall_at_5=0.0, non_inferiority_margin=1.0))

    assert report.verdict == "reject"
    assert [(each.group, each.finding) for each in report.slices] == [("numpy", "held"), ("policy", "lost")]
    assert "In slice library, group 'policy' (600 rows), MRR of version 2 minus champion 1" in report.reasons[0]
    assert {"modules", "candidate_mrr", "champion_mrr"} <= set(report.as_dict()["slices"][0])
    assert "positives" not in report.as_text()


def test_questions_have_no_classes() -> None:
    """A classifier's gate over a retriever's evaluation decides nothing, instead of something wrong."""
    assert judge(evaluation(rows()), GateRules()).verdict == "not-enough-data"


@pytest.mark.parametrize("rule", ["min_mrr", "min_recall_at_5"])
def test_impossible_thresholds_are_refused(rule: str) -> None:
    """A threshold beyond one could never be reached."""
    with pytest.raises(ConfigurationError, match=f"gate rule {rule}: .*saw 1.5"):
        RetrievalRules(**{rule: 1.5})


def test_every_compared_metric_is_one_that_the_workload_reports() -> None:
    """Names are the interface between the pod that measures and the gate that compares."""
    assert set(MRR.computed) == set(MRR.reported) == set(NAMES)
    assert set(RULES.thresholds) <= set(MRR.titles)
