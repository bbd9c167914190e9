from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_ragops.exceptions import ConfigurationError
from airflow_provider_ragops.workloads.serving.settings import Settings

LEAST = {"MODEL_NAME": "M", "MLFLOW_TRACKING_URI": "http://mlflow"}


def test_defaults() -> None:
    """Name and address are enough; no version is a valid state."""
    assert Settings.from_environ(LEAST) == Settings("M", "", "http://mlflow", Path("/tmp/model_cache"), 4, 25, False)


def test_everything_set() -> None:
    """Each variable reaches its field."""
    more = {
        "MODEL_VERSION": "3", "MODEL_CACHE_DIR": "/cache", "SERVING_CONCURRENCY": "2",
        "SERVING_DRAIN_SECONDS": "9", "SERVING_REQUIRE_DIGEST": "true",
    }
    assert Settings.from_environ(LEAST | more) == Settings("M", "3", "http://mlflow", Path("/cache"), 2, 9, True)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("MODEL_NAME", ""), ("MLFLOW_TRACKING_URI", " "), ("SERVING_CONCURRENCY", "0"),
        ("SERVING_CONCURRENCY", "many"), ("SERVING_DRAIN_SECONDS", "-1"), ("SERVING_REQUIRE_DIGEST", "yes"),
    ],
)
def test_a_bad_variable_is_named(name: str, value: str) -> None:
    """The variable, what it must be, and where to correct it."""
    with pytest.raises(ConfigurationError, match=f"environment variable {name}.*chart"):
        Settings.from_environ(LEAST | {name: value})
