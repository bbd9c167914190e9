"""What a candidate must reach."""

from __future__ import annotations

import math
from dataclasses import dataclass

from airflow_provider_ragops.exceptions import ConfigurationError


@dataclass(frozen=True)
class GateRules:
    """AUCs lie in [0, 1]; ``confidence`` is one-sided; ``samples`` are resamples.

    ``max_slice_loss`` is the AUC that a candidate may lose in one slice; 1 lets every slice pass.

    :raises ConfigurationError: when a value is impossible.
    """

    min_auc: float = 0.7
    non_inferiority_margin: float = 0.01
    confidence: float = 0.95
    min_rows: int = 200
    max_slice_loss: float = 0.05
    min_slice_rows: int = 200
    samples: int = 500
    seed: int = 20260101

    def __post_init__(self) -> None:
        # `not (low <= x <= high)` refuses NaN as well.
        for name, low, high in (
            ("min_auc", 0.0, 1.0),
            ("non_inferiority_margin", 0.0, 1.0),
            ("confidence", 0.5, 0.999),
            ("min_rows", 2, math.inf),
            ("max_slice_loss", 0.0, 1.0),
            ("min_slice_rows", 20, math.inf),
            ("samples", 100, 100_000),
        ):
            value = getattr(self, name)
            if not low <= value <= high:
                raise ConfigurationError(
                    f"gate rule {name}", expected=f"a number in [{low:g}, {high:g}]", seen=repr(value),
                    action="Correct the parameter of the gate.",
                )  # fmt: skip
