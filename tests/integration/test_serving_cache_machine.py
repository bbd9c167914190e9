"""Random histories of pods, clean-ups and damage on a real server: no pod ever answers with another version's value."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any, ClassVar

import pytest
import redis
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from airflow_provider_ragops.cache.cleanup import clean_stale, clean_version
from airflow_provider_ragops.contract import marker_key
from airflow_provider_ragops.exceptions import CacheKeyCollisionError, UnreachableError
from airflow_provider_ragops.workloads.serving.cache.settings import CacheSettings
from tests import pods
from tests.fakes.time import FakeTime
from tests.key_space import database
from tests.pods import Pod
from tests.server import Server

# Two pods of version 1, two of version 2, and one of a version 1 that was made anew with another dimension's head.
KINDS = (("1", "a"), ("1", "a"), ("2", "b"), ("2", "b"), ("1", "anew"))
POD = st.sampled_from(range(len(KINDS)))
CUSTOMER = st.sampled_from(["c1", "{c}", "*"])
QUESTION = st.sampled_from(["q", "q2"])
ANY = st.integers(0, 10_000)
ASKED = st.lists(st.tuples(POD, CUSTOMER, QUESTION), min_size=2, max_size=8)
# Here time passes by a rule alone: what a busy machine takes is no fault of Redis.
PATIENT = {"budget": 600.0, "connect": 600.0}
DAMAGE = st.sampled_from(["cut", "flip", "moved", "rubbish", "hash"])


class SideBySide(RuleBasedStateMachine):
    """Time passes only by a rule; each :meth:`Pod.ask` asserts whose answer it is."""

    found: ClassVar[CacheSettings]
    client: ClassVar[redis.Redis]
    outcomes: ClassVar[Counter[str]]

    def __init__(self) -> None:
        super().__init__()
        self.client.flushdb()
        self.time = FakeTime()
        self.runner = asyncio.Runner()
        self.pods = [self.new_pod(number) for number in range(len(KINDS))]
        for number in range(len(KINDS)):
            self.claim(number)

    def new_pod(self, number: int) -> Pod:
        version, run = KINDS[number]
        return pods.pod(self.found, version, run, clock=self.time.clock)

    def run(self, work: Any) -> Any:
        return self.runner.run(work)

    @rule(number=POD)
    def claim(self, number: int) -> None:
        """A pod starts or looks again: refused exactly where another run's marker, or no marker at all, is there."""
        one = self.pods[number]
        try:
            self.run(one.cache.claim())
        except (CacheKeyCollisionError, UnreachableError):
            assert one.cache.standing in ("foreign", "missing")
        else:
            assert self.marker(one) == (b"M", one.identity.run.encode())

    @rule(number=POD)
    def restart(self, number: int) -> None:
        self.run(self.pods[number].cache.close())
        self.pods[number] = self.new_pod(number)
        self.claim(number)

    @rule(asked=ASKED)
    def ask(self, asked: list[tuple[int, str, str]]) -> None:
        for number, customer, question in asked:
            one = self.pods[number]
            before = one.cache.counts.written
            self.outcomes[self.run(one.ask(customer, question))] += 1
            if one.cache.counts.written > before:
                assert self.marker(one) == (b"M", one.identity.run.encode())

    @rule(first=POD, second=POD, customer=CUSTOMER)
    def ask_at_once(self, first: int, second: int, customer: str) -> None:
        async def both() -> None:
            await asyncio.gather(*(self.pods[number].ask(customer, "q") for number in (first, second, first)))

        self.run(both())

    @rule(number=POD, texts=st.lists(QUESTION, min_size=1, max_size=3))
    def search(self, number: int, texts: list[str]) -> None:
        self.outcomes[self.run(self.pods[number].search(*texts))] += 1

    @rule(place=ANY)
    def evict(self, place: int) -> None:
        if keys := self.keys():
            self.client.delete(keys[place % len(keys)])

    @rule(each=st.lists(st.tuples(ANY, ANY, DAMAGE), min_size=1, max_size=6), asked=ASKED)
    def damage_and_ask(self, each: list[tuple[int, int, str]], asked: list[tuple[int, str, str]]) -> None:
        for place, cut, how in each:
            self.damage(place, cut, how)
        self.ask(asked)

    def damage(self, place: int, cut: int, how: str) -> None:
        """Of a value; it keeps its time to live, so that the invariant is about what serving writes."""
        keys = [key for key in self.keys() if b"rag_meta" not in key and self.client.type(key) == b"string"]
        if not keys:
            return
        key, other = keys[place % len(keys)], keys[cut % len(keys)]
        raw = self.client.get(key) or b""
        if how == "hash":
            self.client.delete(key)
            self.client.hset(key, "a", "b")
            self.client.expire(key, 100)
            return
        position = cut % max(1, len(raw))
        damaged = {
            "cut": raw[:position], "moved": self.client.get(other) or b"", "rubbish": bytes([cut % 256]) * 20,
            "flip": raw[:position] + bytes([raw[position] ^ 0x10]) + raw[position + 1:] if raw else b"",
        }
        self.client.set(key, damaged[how], keepttl=True)

    @rule(version=st.sampled_from(["1", "2"]), how=st.sampled_from(["another's", "no hash", "gone"]))
    def lose_marker(self, version: str, how: str) -> None:
        key = marker_key("", version)
        self.client.delete(key)
        if how == "another's":
            self.client.hset(key, mapping={"model": "M", "run": "stolen", "dimension": "8"})
        elif how == "no hash":
            self.client.set(key, "x")
        self.client.expire(key, 100)

    @rule(version=st.sampled_from(["1", "2"]))
    def clean_up(self, version: str) -> None:
        """Airflow's own, of one version: the other's keys are all there afterwards."""
        others = {key for key in self.keys() if b":v%d" % (3 - int(version)) in key}
        with self.text_client() as client:
            if self.client.type(marker_key("", version)) == b"hash":
                clean_version(client, "", "M", version, {})
                assert not [key for key in self.keys() if b":v%s" % version.encode() in key]
        assert others == {key for key in self.keys() if b":v%d" % (3 - int(version)) in key}

    @rule(run=st.sampled_from(["a", "anew", ""]))
    def clean_what_is_stale(self, run: str) -> None:
        with self.text_client() as client:
            clean_stale(client, "", "M", {"1": run})

    @rule()
    def all_look_again(self) -> None:
        """After their pause, as serving does every few seconds."""
        self.time.seconds += 62
        for number in range(len(KINDS)):
            self.claim(number)

    @rule(seconds=st.sampled_from([1.0, 31.0, 62.0, 100_000.0]))
    def time_passes(self, seconds: float) -> None:
        self.time.seconds += seconds

    @invariant()
    def every_key_ends_by_itself(self) -> None:
        """C8."""
        assert all(self.client.pttl(key) > 0 for key in self.keys())

    def keys(self) -> list[bytes]:
        return sorted(self.client.scan_iter())

    def text_client(self) -> redis.Redis:
        options = self.client.get_connection_kwargs()
        return redis.Redis(options["host"], options["port"], db=options["db"], decode_responses=True)

    def marker(self, one: Pod) -> tuple[bytes | None, ...]:
        return tuple(self.client.hmget(marker_key("", one.identity.version), "model", "run"))

    def teardown(self) -> None:
        for each in self.pods:
            self.run(each.cache.close())
        self.runner.close()


@pytest.fixture
def client(redis_server: Server) -> redis.Redis:
    return redis.Redis.from_url(database(redis_server.url, 7))


def test_no_history_crosses_versions(client: redis.Redis, redis_server: Server, evidence: Counter[str]) -> None:
    """C7, C8, M7: over evictions, damage, clean-ups, stolen markers and restarts answers are their pod's."""
    found = pods.settings(database(redis_server.url, 7), patience=0.05, **PATIENT)
    outcomes: Counter[str] = Counter()
    machine = type("Machine", (SideBySide,), {"client": client, "found": found, "outcomes": outcomes})
    run_state_machine_as_test(machine, settings=settings(
        max_examples=40, stateful_step_count=40, deadline=None, derandomize=True, database=None,
        suppress_health_check=list(HealthCheck),
    ))
    assert min(outcomes[each] for each in ("hit", "miss", "mismatch", "bypass")) > 10, outcomes
    evidence["schedules"] += 40
    client.close()
