from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn import metrics as reference

from airflow_provider_ragops.workloads import metrics


@pytest.mark.parametrize("decimals", [1, 2, 16])
def test_metrics_agree_with_scikit_learn(decimals: int) -> None:
    """Own formulas equal scikit-learn's on random rows, with many tied scores and with none."""
    source = np.random.default_rng(decimals)
    labels = source.integers(0, 2, 2_000)
    scores = np.round(np.clip(0.3 * labels + source.random(2_000) * 0.7, 0.01, 0.99), decimals)

    assert metrics.summary(labels, scores) == pytest.approx({
        "auc": reference.roc_auc_score(labels, scores),
        "log_loss": reference.log_loss(labels, np.clip(scores, 1e-15, 1 - 1e-15)),
        "brier": reference.brier_score_loss(labels, scores),
    }, rel=1e-12)  # fmt: skip


@pytest.mark.parametrize(
    ("labels", "scores"), [([1, 1], [0.1, 0.9]), ([0, 0], [0.1, 0.9]), ([], []), ([0, 1], [0.2, float("nan")])]
)
def test_undefined_auc_is_nan(labels: list[int], scores: list[float]) -> None:
    """One class, no rows or a NaN score have no AUC; they never get a number that passes a threshold."""
    assert math.isnan(metrics.auc(labels, scores))


def test_certain_and_wrong_is_finite() -> None:
    """A probability of exactly 0 for a churned customer is expensive, not infinite."""
    assert metrics.log_loss([1], [0.0]) == pytest.approx(34.5, abs=0.1)
    assert metrics.log_loss([0], [1.0]) == pytest.approx(34.5, abs=0.1)


def test_nan_scores_poison_every_metric() -> None:
    """NaN predictions can't be averaged away."""
    assert all(math.isnan(value) for value in metrics.summary([0, 1, 1], [0.1, float("nan"), 0.9]).values())
