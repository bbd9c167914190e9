"""Metrics of a binary classifier, in numpy. Shared by training and evaluation, so that both mean the same.

An AUC of one class only is undefined and comes back as NaN, never as a number that looks good.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

_SMALLEST = 1e-15  # keeps the logarithm finite; a perfect wrong answer costs 34.5


def auc(labels: ArrayLike, scores: ArrayLike) -> float:
    """Area under the ROC curve: the chance that a positive row scores above a negative one, ties counting half."""
    truth, ranks = _floats(labels), _average_ranks(_floats(scores))
    positives = float(truth.sum())
    negatives = len(truth) - positives
    if not positives or not negatives or np.isnan(ranks).any():
        return float("nan")
    return float((ranks[truth == 1].sum() - positives * (positives + 1) / 2) / (positives * negatives))


def log_loss(labels: ArrayLike, scores: ArrayLike) -> float:
    """Mean negative log likelihood (natural logarithm)."""
    truth, chance = _floats(labels), np.clip(_floats(scores), _SMALLEST, 1 - _SMALLEST)
    return _mean(-(truth * np.log(chance) + (1 - truth) * np.log1p(-chance)))


def brier(labels: ArrayLike, scores: ArrayLike) -> float:
    """Mean squared distance between probability and label."""
    return _mean((_floats(scores) - _floats(labels)) ** 2)


def summary(labels: ArrayLike, scores: ArrayLike) -> dict[str, float]:
    """All metrics by the names under which they are logged."""
    return {"auc": auc(labels, scores), "log_loss": log_loss(labels, scores), "brier": brier(labels, scores)}


def _average_ranks(values: Floats) -> Floats:
    if np.isnan(values).any():
        return np.full(len(values), np.nan)
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    ranks: Floats = (last - (counts - 1) / 2)[inverse]
    return ranks


def _mean(values: Floats) -> float:
    return float(values.mean()) if len(values) else float("nan")


def _floats(values: ArrayLike) -> Floats:
    return np.asarray(values, dtype=np.float64)
