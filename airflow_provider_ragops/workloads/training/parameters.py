"""Hyperparameters with their bounds. Standard library only: the operator reads them before a pod exists."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from airflow_provider_ragops.contract import digest
from airflow_provider_ragops.exceptions import ConfigurationError

# Lower and upper bound, both allowed. The seed's upper bound is what every generator involved accepts.
BOUNDS: Mapping[str, tuple[float, float]] = {
    "epochs": (1, 10_000),
    "batch_size": (1, 1_048_576),
    "learning_rate": (1e-8, 10.0),
    "seed": (0, 2**32 - 1),
}


@dataclass(frozen=True)
class TrainingParameters:
    """What a training can be told. Equal parameters, data and image give equal metrics."""

    epochs: int
    batch_size: int
    learning_rate: float
    seed: int

    @classmethod
    def parse(cls, values: Mapping[str, Any]) -> TrainingParameters:
        """Read numbers or their text (Airflow renders templates to text); other keys are ignored.

        :raises ConfigurationError: when one is missing, no number of its kind, or out of bounds.
        """
        found: dict[str, Any] = {field.name: read(field.name, values.get(field.name)) for field in fields(cls)}
        return cls(**found)

    @property
    def digest(self) -> str:
        return digest(*(f"{name}={value!r}" for name, value in sorted(asdict(self).items())))


def read(name: str, value: Any) -> int | float:
    """Read one parameter from a number or text.

    :raises ConfigurationError: when it is no number of its kind, or out of bounds.
    """
    low, high = BOUNDS[name]
    kind = float if name == "learning_rate" else int
    try:
        number = kind(str(value))
    except ValueError as error:
        raise _refused(name, value) from error
    if not low <= number <= high:  # NaN is refused too: every comparison with it is false
        raise _refused(name, value)
    return number


def _refused(name: str, value: Any) -> ConfigurationError:
    low, high = BOUNDS[name]
    kind = "a number" if name == "learning_rate" else "a whole number"
    return ConfigurationError(
        f"training parameter {name}", expected=f"{kind} from {low:g} to {high:g}", seen=repr(value),
        action="Correct it in the trigger form or in the operator.",
    )
