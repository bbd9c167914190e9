"""Clean-up while others write, while pods end, and after it was killed, on a real server."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import redis

from airflow_provider_ragops.cache.cleanup import Conditions, clean_stale, clean_version, clean_versions
from airflow_provider_ragops.cache.inventory import leftovers
from airflow_provider_ragops.contract import decompose_key, marker_key
from tests.fakes.time import FakeTime
from tests.key_space import connect, database, fill, mark, names, write
from tests.server import Server

PREFIX = "f:"
KEEP = {"2": "champion alias"}
DATABASE = 12


@pytest.fixture
def client(redis_server: Server) -> redis.Redis:
    """A database of this module's own, empty."""
    client = connect(redis_server.url, DATABASE)
    client.flushdb()
    return client


class Writer:
    """A pod of version 1 that is Terminating and keeps answering: it writes until it is told to end."""

    def __init__(self, url: str) -> None:
        self.written = 0
        self._client, self._ended = connect(url, DATABASE), threading.Event()
        self._thread = threading.Thread(target=self._write)

    def _write(self) -> None:
        while not self._ended.is_set():
            self._client.set(decompose_key(PREFIX, "1", f"late-{self.written}", "q"), "x", ex=600)
            self.written += 1

    def end(self) -> None:
        self._ended.set()
        self._thread.join(10)

    def live(self) -> dict[str, str]:
        return {"1": "mlflow-serve-old"} if self._thread.is_alive() else {}

    @contextmanager
    def running(self) -> Iterator[Writer]:
        self._thread.start()
        try:
            yield self
        finally:
            self.end()

    def wait_for_more(self, number: int) -> None:
        wanted, until = self.written + number, time.monotonic() + 10
        while self.written < wanted:
            assert time.monotonic() < until, f"the writer came to {self.written} of {wanted} keys"
            time.sleep(0.001)


def test_a_terminating_pods_keys_are_swept_after_it_is_gone(
    client: redis.Redis, redis_server: Server, evidence: Counter[str],
) -> None:
    """C2: an old pod that is Terminating keeps writing; clean-up waits until it is gone and leaves none of its keys."""
    before, kept = fill(client, PREFIX, "1"), fill(client, PREFIX, "2")
    looks = itertools.count(1)

    def sleep(_: float) -> None:
        writer.wait_for_more(50)
        if next(looks) == 4:
            writer.end()

    with Writer(redis_server.url).running() as writer:
        report = clean_versions(client, PREFIX, "M", KEEP, Conditions(live=writer.live, sleep=sleep))
    assert next(looks) == 5
    assert report.left == {}
    assert report.removed == {"1": len(before) + writer.written}
    assert names(client) == kept
    evidence["keys written by a Terminating pod"] += writer.written


def test_a_pod_that_does_not_end_keeps_its_keys(client: redis.Redis) -> None:
    """C2: at the deadline the version is left whole and the pod is named; others don't wait for it."""
    stays = fill(client, PREFIX, "1") | fill(client, PREFIX, "2")
    gone = fill(client, PREFIX, "3")
    time_ = FakeTime()
    conditions = Conditions(
        live=lambda: {"1": "mlflow-serve-old"}, clock=time_.clock, sleep=time_.sleep, timeout=60.0, poll=2.0,
    )
    report = clean_versions(client, PREFIX, "M", KEEP, conditions)
    assert report.left == {"1": "pod mlflow-serve-old is still there"}
    assert report.removed == {"3": len(gone)}
    assert names(client) == stays
    assert 60.0 <= time_.seconds - 1000.0 <= 62.0


def after_each_look(client: redis.Redis, act: Callable[[int], None]) -> Any:
    """The client, with ``act`` called after each SCAN that ended: behind the back of the pass that looked."""
    class Watched:
        passes = 0

        def scan(self, *arguments: Any, **options: Any) -> Any:
            cursor, keys = client.scan(*arguments, **options)
            if not cursor and "decompose" in options["match"]:
                self.passes += 1
                act(self.passes)
            return cursor, keys

        def __getattr__(self, name: str) -> Any:
            return getattr(client, name)

    return Watched()


def test_a_last_write_behind_the_first_pass_is_found_by_the_next(client: redis.Redis) -> None:
    """C2: what a pod wrote as it ended, behind the back of the first two passes, is swept before the marker goes."""
    before, kept = fill(client, PREFIX, "1"), fill(client, PREFIX, "2")
    late = lambda number: write(client, [decompose_key(PREFIX, "1", f"late{number}", "q")] if number < 3 else [])  # noqa: E731
    report = clean_versions(after_each_look(client, late), PREFIX, "M", KEEP)
    assert report.removed == {"1": len(before) + 2}
    assert report.left == {}
    assert names(client) == kept


def test_keys_that_keep_coming_back_are_reported(client: redis.Redis) -> None:
    """C2: with a writer that nobody knows of the passes are bounded, the report says so, and the marker stays."""
    fill(client, PREFIX, "1")
    again = lambda number: write(client, [decompose_key(PREFIX, "1", f"late{number}", "q")])  # noqa: E731
    report = clean_versions(after_each_look(client, again), PREFIX, "M", KEEP)
    assert report.left == {"1": "someone still writes them: 1 more came during the last of 10 passes"}
    assert client.exists(marker_key(PREFIX, "1"))
    assert leftovers(client, PREFIX, "M", KEEP) == {"1": 2}
    assert clean_versions(client, PREFIX, "M", KEEP).removed == {"1": 2}
    assert names(client) == set()


def test_a_pod_that_comes_up_meanwhile_keeps_the_marker(client: redis.Redis) -> None:
    """C2: the pods are looked at once more before the marker goes."""
    fill(client, PREFIX, "1")
    pods: Iterator[dict[str, str]] = iter([{}, {"1": "mlflow-serve-new"}])
    report = clean_version(client, PREFIX, "M", "1", KEEP, Conditions(live=lambda: next(pods)))
    assert report.left == {"1": "pod mlflow-serve-new came up meanwhile"}
    assert names(client) == {marker_key(PREFIX, "1")}


def test_time_that_runs_out_is_reported(client: redis.Redis) -> None:
    """C6: a clean-up ends at its deadline and says that it has; the next one goes on."""
    total = len(fill(client, PREFIX, "1", customers=map(str, range(2000))))
    time_ = FakeTime()
    slow = Conditions(guard=lambda: time_.sleep(1.0), clock=time_.clock, timeout=2.0)
    report = clean_versions(client, PREFIX, "M", KEEP, slow)
    assert report.left == {"1": "no time left after 2 s; the next clean-up goes on"}
    assert 0 < report.removed["1"] < total
    assert clean_versions(client, PREFIX, "M", KEEP).removed == {"1": total - report.removed["1"]}


def test_a_new_pods_marker_is_not_removed(client: redis.Redis) -> None:
    """M7: the recreated model's first pod writes its marker while the old keys are swept: that marker stays."""
    fill(client, PREFIX, "1", run="old")
    newcomer = lambda number: mark(client, PREFIX, "1", run="new") if number == 1 else None  # noqa: E731
    report = clean_stale(after_each_look(client, newcomer), PREFIX, "M", {"1": "new"})
    assert report.left == {"1": "its marker was written anew meanwhile: another pod uses the number"}
    assert names(client) == {marker_key(PREFIX, "1")}
    assert client.hget(marker_key(PREFIX, "1"), "run") == "new"


def test_a_marker_that_changed_while_waiting_protects_the_keys(client: redis.Redis) -> None:
    """M7: whose the keys are is read again after the wait for pods: another owner's keys are not touched."""
    fill(client, PREFIX, "1")
    pods: Iterator[dict[str, str]] = iter([{"1": "mlflow-serve-old"}, {}])
    take_over = lambda _: mark(client, PREFIX, "1", model="Other")  # noqa: E731
    before = names(client)
    report = clean_versions(client, PREFIX, "M", KEEP, Conditions(live=lambda: next(pods), sleep=take_over))
    assert report.left == {"1": "its marker was written anew meanwhile: another pod uses the number"}
    assert names(client) == before


def test_keys_that_scan_repeats_are_counted_once(client: redis.Redis) -> None:
    """C6: SCAN may return a key several times; counts are of keys, in the clean-up and in the report of leftovers."""
    class Repeating:
        def scan(self, *arguments: Any, **options: Any) -> Any:
            cursor, keys = client.scan(*arguments, **options)
            return cursor, [*keys, *keys, *keys]

        def __getattr__(self, name: str) -> Any:
            return getattr(client, name)

    total = len(fill(client, PREFIX, "1", customers=map(str, range(900))))
    assert leftovers(Repeating(), PREFIX, "M", KEEP) == {"1": total}
    assert clean_versions(Repeating(), PREFIX, "M", KEEP).removed == {"1": total}


class Crashed(BaseException):
    """Not an error that anything may catch: the process is gone."""


def test_every_crash_point_is_resumed(client: redis.Redis, evidence: Counter[str]) -> None:
    """C6: ended before any of its effects, a clean-up leaves the marker; the next one finishes, with right counts."""
    def crash_at(point: int) -> Callable[[], None]:
        calls = itertools.count(1)

        def guard() -> None:
            if next(calls) == point:
                raise Crashed

        return guard

    kept = fill(client, PREFIX, "2")
    for point in itertools.count(1):
        total = len(fill(client, PREFIX, "1", customers=map(str, range(1200))))
        try:
            clean_versions(client, PREFIX, "M", KEEP, Conditions(guard=crash_at(point)))
        except Crashed:
            assert client.exists(marker_key(PREFIX, "1"))
            left = len(names(client) - kept)
            assert leftovers(client, PREFIX, "M", KEEP) == {"1": left}
            assert clean_versions(client, PREFIX, "M", KEEP).removed == {"1": left}
            assert left <= total
            assert names(client) == kept
            evidence["faults"] += 1
        else:
            break
    assert names(client) == kept
    assert point > 6  # 2400 keys in batches of at most 500, and the marker


# Prints before each effect, and waits for ever before the one that it is to be killed at.
VICTIM = """
import sys, time, redis
from airflow_provider_ragops.cache.cleanup import Conditions, clean_versions
url, point = sys.argv[1], int(sys.argv[2])
def guard(calls=[0]):
    calls[0] += 1
    if calls[0] == point:
        print("ready", flush=True)
        time.sleep(60)
client = redis.Redis.from_url(url, decode_responses=True)
clean_versions(client, "f:", "M", {"2": "champion alias"}, Conditions(guard=guard))
"""


@pytest.mark.parametrize("point", [1, 4])
def test_a_killed_clean_up_is_finished_by_the_next(
    client: redis.Redis, redis_server: Server, point: int, evidence: Counter[str],
) -> None:
    """C6: after SIGKILL of a real process in mid-clean-up the rerun removes and counts the rest; a third finds none."""
    total, kept = len(fill(client, PREFIX, "1", customers=map(str, range(1500)))), fill(client, PREFIX, "2")
    command = [sys.executable, "-c", VICTIM, database(redis_server.url, DATABASE), str(point)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as victim:
        assert victim.stdout
        assert victim.stdout.readline() == "ready\n"
        os.kill(victim.pid, signal.SIGKILL)
        assert victim.wait(10) == -signal.SIGKILL
    left = len(names(client) - kept)
    assert left == total if point == 1 else 0 < left < total
    assert client.exists(marker_key(PREFIX, "1"))
    assert clean_versions(client, PREFIX, "M", KEEP).removed == {"1": left}
    assert names(client) == kept
    assert clean_versions(client, PREFIX, "M", KEEP).removed == {}
    evidence["faults"] += 1
