"""A scripted tier that serves version 1, and an updater on its clock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from airflow_provider_ragops.contract import ServingTarget
from airflow_provider_ragops.rollout.plan import Change
from airflow_provider_ragops.rollout.status import Progress
from airflow_provider_ragops.rollout.updater import Updater
from tests.fakes.kube import FakeTier

TARGET = ServingTarget("ml-serving", "M")
EXAMPLE = {"dataframe_records": [{"x": 1.0}]}


def make_updater(tier: FakeTier, poll: float = 1.0) -> Updater:
    time = tier.time
    return Updater(tier, TARGET, poll=poll, clock=time.clock, sleep=time.sleep)  # type: ignore[arg-type]


def roll(
    tier: FakeTier, version: str, *, timeout: float = 60, poll: float = 1.0, patient: bool = False,
    guard: Callable[[], None] = lambda: None, example: dict[str, Any] | None = EXAMPLE,
) -> Progress:
    """Write the version and follow it to its end."""
    updater = make_updater(tier, poll)
    written = updater.write(updater.read(), Change("{}", version))
    return updater.wait(written, version, example, timeout, guard, patient=patient)


@pytest.fixture
def tier() -> FakeTier:
    made = FakeTier()
    assert roll(made, "1").state == "done"
    made.asked.clear()
    return made
