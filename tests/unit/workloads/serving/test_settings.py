from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_ragops.exceptions import ConfigurationError
from airflow_provider_ragops.workloads.serving.settings import Limits, Settings

LEAST = {"MODEL_NAME": "M", "MLFLOW_TRACKING_URI": "http://mlflow"}


def test_defaults() -> None:
    """Name and address are enough; no version is a valid state."""
    expected = Settings("M", "", "http://mlflow", Path("/tmp/model_cache"), Limits(4, 64, 10))
    assert Settings.from_environ(LEAST) == expected


def test_everything_set() -> None:
    """Each variable reaches its field."""
    more = {
        "MODEL_VERSION": "3", "MODEL_CACHE_DIR": "/cache", "SERVING_CONCURRENCY": "2",
        "SERVING_DRAIN_SECONDS": "9", "SERVING_REQUIRE_DIGEST": "true", "SERVING_QUEUE": "5",
        "SERVING_REQUEST_SECONDS": "7", "SERVING_MAX_BODY_BYTES": "1000", "SERVING_MAX_QUERIES": "6",
        "SERVING_MAX_QUERY_CHARACTERS": "80", "SERVING_LINGER_SECONDS": "1", "SERVING_REQUEST_LOG": "false",
        "SERVING_LOG_KEY": "secret",
    }
    found = Settings.from_environ(LEAST | more)
    assert found == Settings(
        "M", "3", "http://mlflow", Path("/cache"), Limits(2, 5, 7, 1000, 6, 80), 9, 1, True, False, "secret",
    )
    assert "secret" not in repr(found)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("MODEL_NAME", ""), ("MLFLOW_TRACKING_URI", " "), ("SERVING_CONCURRENCY", "0"),
        ("SERVING_CONCURRENCY", "many"), ("SERVING_DRAIN_SECONDS", "-1"), ("SERVING_REQUIRE_DIGEST", "yes"),
        ("SERVING_QUEUE", "²"), ("SERVING_LINGER_SECONDS", "25"), ("SERVING_REQUEST_LOG", "1"),
    ],
)
def test_a_bad_variable_is_named(name: str, value: str) -> None:
    """The variable, what it must be, and where to correct it."""
    with pytest.raises(ConfigurationError, match=f"environment variable {name}.*chart"):
        Settings.from_environ(LEAST | {name: value})


def test_a_short_drain_has_a_shorter_linger() -> None:
    """A chart that allows one second for the drain has none to linger; its pods still start."""
    assert Settings.from_environ(LEAST | {"SERVING_DRAIN_SECONDS": "1"}).linger_seconds == 0
