"""Real processes that are stopped, resumed, killed and timed out, on a real API server."""

from __future__ import annotations

import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from airflow.sdk.exceptions import AirflowTaskTimeout
from airflow.sdk.execution_time.timeout import timeout

from airflow_provider_ragops.locking.holding import held
from tests import contender
from tests.integration.locking.conftest import STEADY, Place
from tests.integration.locking.processes import contending

pytestmark = pytest.mark.cluster

TARGET = contender.TARGET


def write_target(place: Place, token: int) -> int:
    """Write to the protected object as the holder of ``token``; returns the version of the object."""
    kube = place.kube(timeout=10)
    path = place.path.replace("the-lock", TARGET)
    found = kube.get(path)
    assert found
    assert int(found["data"]["token"]) <= token
    written = kube.replace(path, found | {"data": {"token": str(token), "by": "the test"}})
    return int(written["metadata"]["resourceVersion"])


def test_paused_holder_is_fenced(place: Place, tmp_path: Path, evidence: Counter[str]) -> None:
    """L1, L4: a holder is stopped for longer than a lease, another one takes the lock and writes, the first goes on: it
    writes nothing any more, learns who has the lock, and its release leaves the other's record as it is."""
    with contending(place, tmp_path, 1, 10**9) as processes:
        first = processes.wait_for(lambda event: event["event"] == "effect")
        processes.signal(first["pid"], signal.SIGSTOP)
        lock = place.lock("b", contender.TIMES)
        began = time.monotonic()
        assert lock.acquire() == first["token"] + 1
        assert time.monotonic() - began >= contender.TIMES.lease
        version = write_target(place, lock.token)
        before = place.object()
        processes.signal(first["pid"], signal.SIGCONT)
        lost = processes.wait_for(lambda event: event["event"] == "lost")
        assert lost["pid"] == first["pid"]
        assert "a valid hold by p" in lost["why"]
        # The loser is now a waiter, and its release came before that.
        time.sleep(0.5)
        assert place.object() == before
        late = [event for event in processes.events if event["event"] == "effect" and int(event["version"]) > version]
        assert late == []
        lock.release()
    evidence["schedules"] += 1
    evidence["faults injected"] += 1


def test_killed_holder_is_succeeded(place: Place, tmp_path: Path, evidence: Counter[str]) -> None:
    """L6: a killed process frees nothing; its lease ends, and the successor's token is larger."""
    with contending(place, tmp_path, 1, 10**9) as processes:
        first = processes.wait_for(lambda event: event["event"] == "effect")
        processes.signal(first["pid"], signal.SIGKILL)
        killed = time.monotonic()
        second = processes.wait_for(lambda event: event["event"] == "effect" and event["pid"] != first["pid"])
        lease = contender.TIMES.lease
        assert lease <= time.monotonic() - killed < lease + 8  # the successor is born after the death
        assert second["token"] == first["token"] + 1
    evidence["faults injected"] += 1


@contextmanager
def execution_timeout(seconds: float) -> Iterator[None]:
    """Airflow's own, as the task runner sets it; pytest's is set again afterwards."""
    handler, left = signal.getsignal(signal.SIGALRM), signal.getitimer(signal.ITIMER_REAL)[0]
    try:
        with timeout(seconds):
            yield
    finally:
        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, left)


def test_execution_timeout_in_the_wait_leaves_nothing_behind(place: Place) -> None:
    """A8: Airflow's execution timeout strikes while the lock is waited for: the holder's object is as it was, no thread
    and no hold are left, and the next in line gets the lock as if nothing had been."""
    first = place.lock("first", STEADY)
    first.acquire()
    before = place.object()
    with pytest.raises(AirflowTaskTimeout), execution_timeout(1), held(place.lock("second", STEADY)):
        raise AssertionError("it was not free")
    assert place.object() == before
    first.release()
    assert place.lock("third", STEADY).acquire() == 2


def test_execution_timeout_in_the_block_frees_the_lock(place: Place) -> None:
    """A8: Airflow's execution timeout strikes while the lock is held: it is free at once, no lease has to end."""
    with pytest.raises(AirflowTaskTimeout), execution_timeout(1), held(place.lock("first", STEADY)):
        time.sleep(30)
    assert place.record().free
