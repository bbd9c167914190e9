"""When a server is not asked, and when a policy may evict: decisions without a server."""

from __future__ import annotations

import pytest

from airflow_provider_ragops.workloads.serving.cache.breaker import Breaker
from airflow_provider_ragops.workloads.serving.cache.budget import Budget
from airflow_provider_ragops.workloads.serving.cache.eviction import evicts
from airflow_provider_ragops.workloads.serving.cache.link import Unavailable
from tests.fakes.time import FakeTime


def test_three_failures_in_a_row_open_it() -> None:
    """C9: one reply between failures keeps it closed; the third in a row opens it, once."""
    breaker = Breaker("r", FakeTime().clock)
    assert [breaker.failed("x"), breaker.failed("x")] == [False, False]
    breaker.answered()
    assert [breaker.failed("x"), breaker.failed("x"), breaker.is_open] == [False, False, False]
    assert [breaker.failed("last"), breaker.is_open, breaker.reason, breaker.opened] == [True, True, "last", 1]
    assert breaker.failed("again") is False


def test_probes_get_rarer_up_to_a_bound_and_start_anew() -> None:
    """C9: the first probe is soon, then ever later, two seconds apart at most; after recovery it is soon again."""
    time = FakeTime()
    breaker = Breaker("r", time.clock)
    waits = []
    for _ in range(2):
        for _ in range(3):
            breaker.failed("x")
        waits = []
        for _ in range(8):
            began = time.seconds
            while not breaker.probe_is_due():
                time.sleep(0.01)
            waits.append(round(time.seconds - began, 2))
            breaker.failed("still")
        breaker.close()
        assert not breaker.probe_is_due()
    assert waits[:3] == [pytest.approx(0.05, abs=0.02), pytest.approx(0.1, abs=0.02), pytest.approx(0.2, abs=0.02)]
    assert max(waits) == waits[-1] == pytest.approx(2.0, abs=0.02)


def test_a_budget_is_spent_over_several_calls() -> None:
    """C9: each call gets what the ones before left; with nothing left none is made."""
    time = FakeTime()
    budget = Budget(0.05, time.clock)
    for left in (0.05, 0.03, 0.01):
        with budget.call() as seconds:
            assert seconds == pytest.approx(left)
            time.sleep(0.02)
    with pytest.raises(Unavailable), budget.call():
        pass


def test_calls_side_by_side_spend_their_time_once() -> None:
    """C9: many sub-queries at once wait for Redis together, and the request waits as long as the slowest."""
    time = FakeTime()
    budget = Budget(0.05, time.clock)
    with budget.call(), budget.call(), budget.call():
        time.sleep(0.02)
    time.sleep(1)  # the answer is built: not Redis' time
    with budget.call() as seconds:
        assert seconds == pytest.approx(0.03)


@pytest.mark.parametrize(("policy", "maxmemory", "expected"), [
    ("noeviction", 100, "none"), ("noeviction", None, "none"), ("allkeys-lru", 0, "none"), ("allkeys-lru", 1, "any"),
    ("allkeys-lfu", None, "any"), ("allkeys-random", 5, "any"), ("volatile-lru", 5, "expiring"),
    ("volatile-ttl", None, "expiring"), ("", None, "unknown"), ("some-new-policy", 5, "unknown"),
])
def test_what_a_policy_may_evict(policy: str, maxmemory: int | None, expected: str) -> None:
    """C3: any key, keys that end by themselves, or none; a policy that is not known is not taken for a harmless one."""
    assert evicts(policy, maxmemory) == expected
