"""What the gate compares two versions by: a number computed from the kept rows, and its differences over resamples.

A measure is no more than that, so the rounds of the gate, the bootstrap and the margins are the same for all.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_provider_ragops.promotion import ranking

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from airflow_provider_ragops.promotion.evaluation import Predictions

Rows = Callable[["NDArray[Any]", "NDArray[Any]"], float]  # labels, scores


@dataclass(frozen=True)
class Measure:
    """``name`` is the one that is compared; ``computed`` gives all that follow from the rows, by their names.

    ``reported`` are the metrics that a version must have; ``units`` are what is drawn with all its rows; ``classes``
    says whether the rows have labels of two classes, without both of which there is no number.
    """

    name: str
    titles: Mapping[str, str]
    reported: tuple[str, ...]
    units: str
    classes: bool
    computed: Mapping[str, Rows]
    resampled: Callable[..., NDArray[Any]]

    @property
    def title(self) -> str:
        return self.titles[self.name]

    def value(self, labels: NDArray[Any], scores: NDArray[Any]) -> float:
        return self.computed[self.name](labels, scores)

    def differences(self, rows: Predictions, *, samples: int, seed: int) -> NDArray[Any]:
        """Candidate minus champion in each resample of whole units; NaN where one has no number."""
        return self.resampled(rows.users, rows.labels, rows.candidate, rows.champion, samples=samples, seed=seed)


def _mean(_labels: NDArray[Any], scores: NDArray[Any]) -> float:
    return float(scores.mean()) if len(scores) else math.nan


def _recall(depth: int) -> Rows:
    """The share of questions whose passage is among the first ``depth``: it follows from the reciprocal ranks."""

    def found(_labels: NDArray[Any], scores: NDArray[Any]) -> float:
        return float((scores >= 1.0 / depth).mean()) if len(scores) else math.nan

    return found


#: Rows are a binary classifier's, with a label and a score.
AUC = Measure(
    "auc", {"auc": "AUC"}, ("auc", "log_loss", "brier"), "users", True, {"auc": ranking.auc}, ranking.auc_differences,
)
#: Rows are questions to a retriever, with the reciprocal rank of the passage that answers each.
MRR = Measure(
    "mrr", {"mrr": "MRR", "recall_at_5": "Recall at 5"}, ("mrr", "recall_at_1", "recall_at_5", "recall_at_10"),
    "modules", False,
    {"mrr": _mean, "recall_at_1": _recall(1), "recall_at_5": _recall(5), "recall_at_10": _recall(10)},
    ranking.mean_differences,
)  # fmt: skip
