from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_ragops.exceptions import ConfigurationError
from airflow_provider_ragops.workloads.training.parameters import TrainingParameters

GIVEN: dict[str, Any] = {"epochs": 3, "batch_size": 64, "learning_rate": 0.01, "seed": 7}


def test_rendered_text_is_read() -> None:
    """Airflow renders numbers to text: the same parameters, hence the same digest."""
    rendered = TrainingParameters.parse({"epochs": "3", "batch_size": " 64", "learning_rate": "1e-2", "seed": "7"})
    assert rendered == TrainingParameters(3, 64, 0.01, 7)
    assert rendered.digest == TrainingParameters.parse(GIVEN).digest


@pytest.mark.parametrize("change", [{"epochs": 4}, {"batch_size": 65}, {"learning_rate": 0.011}, {"seed": 8}])
def test_digest_names_every_parameter(change: dict[str, Any]) -> None:
    """Another value of any parameter is another digest, so no version of other work is reused."""
    assert TrainingParameters.parse(GIVEN | change).digest != TrainingParameters.parse(GIVEN).digest


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("epochs", 0), ("epochs", "2.5"), ("epochs", None), ("epochs", "None"), ("batch_size", -1),
        ("batch_size", "many"), ("learning_rate", 0), ("learning_rate", "nan"), ("learning_rate", "inf"),
        ("seed", -1), ("seed", 2**32),
    ],
)  # fmt: skip
def test_impossible_values_are_named(name: str, value: Any) -> None:
    """A value out of bounds or of another kind is an error that names the parameter and what was given."""
    with pytest.raises(ConfigurationError, match=f"training parameter {name}: expected .*saw {value!r}"):
        TrainingParameters.parse(GIVEN | {name: value})
