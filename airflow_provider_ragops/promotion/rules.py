"""What a candidate must reach."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

from airflow_provider_ragops.exceptions import ConfigurationError
from airflow_provider_ragops.promotion.measures import AUC, MRR, Measure

Bound = tuple[str, float, float]


@dataclass(frozen=True, kw_only=True)
class Rules:
    """How two versions are compared, whatever the measure; ``confidence`` is one-sided; ``samples`` are resamples.

    ``max_slice_loss`` is how much of the measure a candidate may lose in one slice; 1 lets every slice pass.

    :raises ConfigurationError: when a value is impossible.
    """

    measure: ClassVar[Measure]

    non_inferiority_margin: float = 0.01
    confidence: float = 0.95
    min_rows: int = 200
    max_slice_loss: float = 0.05
    min_slice_rows: int = 200
    samples: int = 500
    seed: int = 20260101

    def __post_init__(self) -> None:
        # `not (low <= x <= high)` refuses NaN as well.
        for name, low, high in (*self.bounds(), *_COMPARISON):
            value = getattr(self, name)
            if not low <= value <= high:
                raise ConfigurationError(
                    f"gate rule {name}", expected=f"a number in [{low:g}, {high:g}]", seen=repr(value),
                    action="Correct the parameter of the gate.",
                )  # fmt: skip

    @property
    def thresholds(self) -> Mapping[str, float]:
        """The least value of each metric that has one, by name."""
        raise NotImplementedError

    def bounds(self) -> Iterator[Bound]:
        yield from ((f"min_{name}", 0.0, 1.0) for name in self.thresholds)


_COMPARISON: tuple[Bound, ...] = (
    ("non_inferiority_margin", 0.0, 1.0),
    ("confidence", 0.5, 0.999),
    ("min_rows", 2, math.inf),
    ("max_slice_loss", 0.0, 1.0),
    ("min_slice_rows", 20, math.inf),
    ("samples", 100, 100_000),
)


@dataclass(frozen=True, kw_only=True)
class GateRules(Rules):
    """For a binary classifier: the AUC."""

    measure = AUC

    min_auc: float = 0.7

    @property
    def thresholds(self) -> Mapping[str, float]:
        return {"auc": self.min_auc}


@dataclass(frozen=True, kw_only=True)
class RetrievalRules(Rules):
    """For a retriever: the mean reciprocal rank, and the recall among the first five passages."""

    measure = MRR

    non_inferiority_margin: float = 0.02
    min_mrr: float = 0.5
    min_recall_at_5: float = 0.6

    @property
    def thresholds(self) -> Mapping[str, float]:
        return {"mrr": self.min_mrr, "recall_at_5": self.min_recall_at_5}
