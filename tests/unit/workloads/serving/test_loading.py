from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_ragops.exceptions import CacheKeyCollisionError, RegistryError, UnreachableError
from airflow_provider_ragops.workloads.serving.loading import backoff, make_ready
from airflow_provider_ragops.workloads.serving.settings import Settings
from airflow_provider_ragops.workloads.serving.state import Health, ServingState

DOWN = UnreachableError("MLflow at http://mlflow", expected="an answer", seen="nothing", action="Start it.")
GONE = RegistryError("model M version 3", expected="it", seen="not found", action="Register it.")


def a_state(version: str = "3") -> ServingState:
    return ServingState.of(Settings("M", version, "http://mlflow", Path("unused")))


def loading(*outcomes: Any) -> Callable[[Settings], Any]:
    """A load that raises or returns the outcomes one after the other."""
    steps = iter(outcomes)

    def load(settings: Settings) -> Any:
        outcome = next(steps)
        if isinstance(outcome, Exception):
            raise outcome
        return SimpleNamespace(name=settings.model_name, version=settings.model_version, pyfunc=outcome)

    return load


def test_an_unreachable_mlflow_is_tried_again_until_it_answers() -> None:
    """L7: loading, with the reason and the next try; then ready, without a restart."""
    state, between = a_state(), []

    def wait(seconds: float) -> bool:
        between.append((seconds, state.health))
        return False

    make_ready(state, loading(DOWN, DOWN, "model"), wait, clock=iter([10.0, 14.5]).__next__)
    assert [seconds for seconds, _ in between] == [1.0, 2.0]
    assert [health.status for _, health in between] == ["loading", "loading"]
    assert "http://mlflow" in between[0][1].detail
    assert "Next try in 1 s" in between[0][1].detail
    assert state.health == Health("ready", "M", "3", "loaded in 4.5 s")
    assert state.loaded is not None


def test_a_collision_is_looked_at_again() -> None:
    """M7: failed, with the code; once the foreign keys were cleaned up, the pod becomes ready by itself."""
    foreign = CacheKeyCollisionError("marker rag_meta:v3", expected="M", seen="N", action="Clean up.")
    state, between = a_state(), []

    def wait(_: float) -> bool:
        between.append((state.health.status, state.health.code))
        return False

    make_ready(state, loading(foreign, "model"), wait)
    assert between == [("failed", "cache_key_collision")]
    assert state.health.ready


@pytest.mark.parametrize("error", [GONE, RuntimeError("a bug")])
def test_an_error_that_waiting_cannot_cure_ends_the_loop(error: Exception) -> None:
    """Permanent errors and bugs: failed with the reason, never a silent 'loading'."""
    state = a_state()
    make_ready(state, loading(error), wait=lambda _: pytest.fail("waited"))
    assert state.health.status == "failed"
    assert str(error) in state.health.detail
    assert state.loaded is None


def test_a_stopping_process_gives_up() -> None:
    """The wait says stop: no further try."""
    state = a_state()
    make_ready(state, loading(DOWN), wait=lambda _: True)
    assert state.health.status == "loading"


def test_without_a_version_nothing_is_loaded() -> None:
    """No version assigned: the loop ends at once."""
    state = a_state(version="")
    make_ready(state, loading(), wait=lambda _: False)
    assert state.health.status == "no version assigned"


def test_waits_double_up_to_a_limit() -> None:
    """1, 2, 4 … 30 seconds, for ever."""
    assert list(islice(backoff(), 8)) == [1, 2, 4, 8, 16, 30, 30, 30]
