"""Relations between durations, refused at construction."""

from __future__ import annotations

import time

import pytest

from airflow_provider_ragops.exceptions import ConfigurationError
from airflow_provider_ragops.locking.times import LockTimes, elapsed
from tests.unit.locking.locks import World

GOOD = {"lease": 15, "renew_deadline": 10, "retry": 2, "wait": 60, "max_hold": 120}


@pytest.mark.parametrize(("change", "named"), [
    ({"lease": 0}, "lease.*saw 0"), ({"lease": 0.5}, r"lease.*saw 0\.5"), ({"lease": True}, "lease.*saw True"),
    ({"renew_deadline": 15}, "renew_deadline.*saw 15"), ({"renew_deadline": float("nan")}, "renew_deadline.*saw nan"),
    ({"retry": 9}, "retry.*saw 9"), ({"retry": 0}, "retry.*saw 0"), ({"retry": -1}, "retry.*saw -1"),
    ({"wait": 15}, "wait.*saw 15"), ({"max_hold": 1}, "max_hold.*saw 1"),
])  # fmt: skip
def test_impossible_times_are_refused(change: dict[str, float], named: str) -> None:
    """L8: each broken relation between durations is refused at construction, with its name and the offending value."""
    with pytest.raises(ConfigurationError, match=named):
        LockTimes(**GOOD | change)  # type: ignore[arg-type]


def test_empty_holder_is_refused() -> None:
    """L8: a lock without a holder's name can't be made."""
    with pytest.raises(ConfigurationError, match=r"ns/the-lock.*holder"):
        World().lock("")


@pytest.mark.parametrize("timeout", [5.1, 10, 3600, 0])
def test_request_that_may_cost_the_hold_is_refused(timeout: float) -> None:
    """L7, L8: one hung request must leave time for another within the renewal deadline; longer timeouts are refused."""
    world = World()
    world.kube.timeout = timeout
    with pytest.raises(ConfigurationError, match=rf"half of renew_deadline=10 s.*saw {timeout:g} s"):
        world.lock()


def test_defaults_bear_twice_the_clock_rate_and_one_hung_request() -> None:
    """L6, L7: the default times allow a waiter's clock twice as fast, and the hook's default request timeout."""
    times = LockTimes()
    assert times.lease > 2 * times.renew_deadline
    times.require_brief(10.0, "lock")


def test_the_clock_is_set_by_nobody_and_counts_sleep() -> None:
    """L6: durations are measured by a clock that no NTP step moves and that goes on while the machine sleeps."""
    before = time.clock_gettime(time.CLOCK_BOOTTIME)
    assert before <= elapsed() <= time.clock_gettime(time.CLOCK_BOOTTIME)
