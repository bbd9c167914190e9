"""Hyperparameters of a retriever. Standard library only: the operator reads them before a pod exists."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from airflow_provider_ragops.exceptions import ConfigurationError
from airflow_provider_ragops.workloads.training.parameters import TrainingParameters

DIMENSIONS = (256, 384, 512, 768)


@dataclass(frozen=True)
class RetrieverParameters(TrainingParameters):
    """``dimension``: how many numbers an embedding has; one of :data:`DIMENSIONS`."""

    dimension: int

    @classmethod
    def parse(cls, values: Mapping[str, Any]) -> RetrieverParameters:
        """:raises ConfigurationError: when one is missing, no number of its kind, or out of bounds."""
        common = TrainingParameters.parse(values)
        return cls(**vars(common), dimension=dimension(values.get("dimension")))


def dimension(value: Any) -> int:
    """Read a dimension from a number or text."""
    found = {str(each): each for each in DIMENSIONS}.get(str(value))
    if found is None:
        raise ConfigurationError(
            "training parameter dimension", expected=f"one of {', '.join(map(str, DIMENSIONS))}", seen=repr(value),
            action="Correct it in the trigger form or in the operator.",
        )
    return found
