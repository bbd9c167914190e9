"""Metrics of a retriever, all of them functions of each question's reciprocal rank. Numpy only."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

DEPTHS = (1, 5, 10)
NAMES = ("mrr", *(f"recall_at_{depth}" for depth in DEPTHS))


def reciprocal_ranks(scores: NDArray[np.float32], own: NDArray[np.int64]) -> NDArray[np.float64]:
    """One over the rank of each row's own column; among equal scores it counts as the last.

    :param scores: (questions, passages)
    :param own: the column of each question's passage
    """
    best = scores[np.arange(len(own)), own]
    ranks = (scores >= best[:, None]).sum(axis=1)
    return np.asarray(1.0 / ranks, dtype=np.float64)


def summary(ranks: ArrayLike) -> dict[str, float]:
    """Mean reciprocal rank and recall at each depth: the share of questions whose passage is among the first k."""
    values = np.asarray(ranks, dtype=np.float64)
    if not len(values):
        return dict.fromkeys(NAMES, float("nan"))
    recalls = {f"recall_at_{depth}": float((values >= 1.0 / depth).mean()) for depth in DEPTHS}
    return {"mrr": float(values.mean()), **recalls}
