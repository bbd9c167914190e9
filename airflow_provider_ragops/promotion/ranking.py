"""AUC, and how sure we are of a difference of two AUCs or two means: a paired bootstrap that resamples users.

A user has several rows, and the rows of one user are alike. Resampling rows would treat them as independent and
give an interval that is too narrow; so whole users are drawn, with all their rows, and both models are scored
on the same draw. A draw is kept as weights (how often each user was drawn): the rows are sorted once per model
and every resample is a weighted sum over that order.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray

_RESAMPLES_AT_ONCE = 25  # 25 x 23,000 rows of float64 are 5 MB: the block stays in the processor's cache


@dataclass(frozen=True)
class Ranking:
    """Rows in ascending order of one model's score, cut into groups of equal score."""

    order: NDArray[Any]
    group_starts: NDArray[Any]
    positive: NDArray[Any]

    def auc(self, weights: NDArray[Any]) -> NDArray[Any]:
        """AUC per row of ``weights`` (resamples x rows); ties count half; NaN where a class has no weight."""
        import numpy as np

        ordered = weights[:, self.order]
        positives = np.add.reduceat(ordered * self.positive, self.group_starts, axis=1)
        negatives = np.add.reduceat(ordered * ~self.positive, self.group_starts, axis=1)
        below = np.cumsum(negatives, axis=1) - negatives / 2
        pairs = positives.sum(axis=1) * negatives.sum(axis=1)
        with np.errstate(invalid="ignore"):
            return np.asarray((positives * below).sum(axis=1) / pairs)


def rank(labels: NDArray[Any], scores: NDArray[Any]) -> Ranking:
    import numpy as np

    order = np.argsort(scores, kind="stable")
    sorted_scores = scores[order]
    starts = np.flatnonzero(np.r_[True, sorted_scores[1:] != sorted_scores[:-1]])
    return Ranking(order, starts, labels[order] == 1)


def auc(labels: NDArray[Any], scores: NDArray[Any]) -> float:
    """Area under the ROC curve: the chance that a positive row scores above a negative one, ties counting half.

    NaN where a class is missing.
    """
    import numpy as np

    if not len(labels):
        return math.nan
    return float(rank(labels, scores).auc(np.ones((1, len(labels))))[0])


def auc_differences(
    users: NDArray[Any],
    labels: NDArray[Any],
    candidate: NDArray[Any],
    champion: NDArray[Any],
    *,
    samples: int,
    seed: int,
) -> NDArray[Any]:
    """AUC of candidate minus champion in each resample; NaN where a resample lacks a class.

    The same rows and seed give the same numbers.
    """
    import numpy as np

    rankings = rank(labels, candidate), rank(labels, champion)
    blocks = []
    for weights in resamples(users, samples, seed):
        blocks.append(rankings[0].auc(weights) - rankings[1].auc(weights))
    return np.concatenate(blocks)


def mean_differences(
    users: NDArray[Any],
    labels: NDArray[Any],  # noqa: ARG001 - the same call as auc_differences
    candidate: NDArray[Any],
    champion: NDArray[Any],
    *,
    samples: int,
    seed: int,
) -> NDArray[Any]:
    """Mean score of candidate minus champion in each resample."""
    import numpy as np

    losses = candidate - champion
    return np.concatenate([weights @ losses / weights.sum(axis=1) for weights in resamples(users, samples, seed)])


def resamples(users: NDArray[Any], samples: int, seed: int) -> Iterator[NDArray[Any]]:
    """Blocks of weights, (resamples, rows): how often each row's user was drawn."""
    import numpy as np

    names, user_of_row = np.unique(users, return_inverse=True)
    random = np.random.default_rng(seed)
    for first in range(0, samples, _RESAMPLES_AT_ONCE):
        count = min(_RESAMPLES_AT_ONCE, samples - first)
        draws = random.integers(len(names), size=(count, len(names)))
        times_drawn = np.stack([np.bincount(draw, minlength=len(names)) for draw in draws])
        yield times_drawn[:, user_of_row].astype(np.float64)
