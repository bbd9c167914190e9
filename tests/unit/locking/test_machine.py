"""L2: any order of steps, pauses, deaths, partitions, lost replies, conflicts and time, chosen by Hypothesis."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from tests.unit.locking.contenders import Contender, Fate, Server, Stop

MOST = 50
HOLDER = -1
#: A contender by number, or whoever the record names: of fifty, chance alone would seldom hit the one that matters.
WHO = st.one_of(st.just(HOLDER), st.integers(0, MOST - 1))
SECONDS = st.sampled_from((0.5, 2.5, 6.0, 9.9, 10.1, 15.0, 46.0))
FATES = st.sampled_from(("lost", "touched"))
STOPS = st.sampled_from(("read", "write", "reply to read", "reply to write", "sleep"))

schedules = Counter[str]()


class Locking(RuleBasedStateMachine):
    """2 to 50 contenders for one lock."""

    def __init__(self) -> None:
        super().__init__()
        self.server = Server()
        self.contenders: list[Contender] = []

    @initialize(count=st.sampled_from((2, 2, 3, 4, 8, MOST)))
    def begin(self, count: int) -> None:
        self.contenders = [Contender(self.server, number) for number in range(count)]
        schedules["schedules"] += 1

    def one(self, who: int) -> Contender:
        record = self.server.record
        holders = [one for one in self.contenders if record and one.lock.identity == record.holder]
        return holders[0] if who == HOLDER and holders else self.contenders[who % len(self.contenders)]

    @rule(order=st.lists(WHO, min_size=1, max_size=25))
    def step(self, order: list[int]) -> None:
        for who in order:
            if self.one(who).ready:
                self.one(who).step()
                self.at_most_one_believes()

    @rule(seconds=SECONDS)
    def live(self, seconds: float) -> None:
        """Time passes, and everyone who can goes on."""
        end = self.server.now + seconds
        while self.server.now < end:
            self.everyone()
            self.server.now += 0.5

    @rule(seconds=SECONDS)
    def stand_still(self, seconds: float) -> None:
        """Time passes, and nobody gets to run."""
        self.server.now += seconds

    @rule(who=WHO, where=STOPS, fate=FATES)
    def fail(self, who: int, where: Stop, fate: Fate) -> None:
        """A request or its reply is lost, or a stranger writes the object just before."""
        one = self.one(who)
        if self.reach(one, where):
            schedules["faults"] += 1
            one.step(fate)

    @rule(who=WHO, where=STOPS, seconds=SECONDS)
    def freeze(self, who: int, where: Stop, seconds: float) -> None:
        """One process stands still, at a place of interest if it comes by; the others go on."""
        one = self.one(who)
        self.reach(one, where)
        one.paused = True
        schedules["faults"] += 1
        self.live(seconds)
        one.paused = False

    @rule(who=WHO)
    def pause(self, who: int) -> None:
        """It stands still until all are resumed."""
        schedules["faults"] += 1
        self.one(who).paused = True

    @rule()
    def resume(self) -> None:
        for contender in self.contenders:
            contender.paused = False

    @rule(who=WHO)
    def partition(self, who: int) -> None:
        schedules["faults"] += 1
        self.one(who).partitioned = True

    @rule()
    def heal(self) -> None:
        for contender in self.contenders:
            contender.partitioned = False

    @rule(who=WHO)
    def leave(self, who: int) -> None:
        """The next time that it looks, it has done its work."""
        self.one(who).leaving = True

    @rule(who=WHO)
    def kill(self, who: int) -> None:
        """Another process takes its place, and knows nothing."""
        schedules["faults"] += 1
        number = self.contenders.index(self.one(who))
        self.contenders[number].kill()
        self.contenders[number] = Contender(self.server, number)

    def reach(self, one: Contender, where: Stop) -> bool:
        """Let one go on to such a stop, if it comes there before it has to wait."""
        for _ in range(10):
            if not one.ready or one.at == where:
                break
            one.step()
            self.at_most_one_believes()
        return one.ready and one.at == where

    @invariant()
    def at_most_one_believes(self) -> None:
        believers = [contender.lock.identity for contender in self.contenders if contender.believes]
        assert len(believers) <= 1, f"{believers} believe to hold the lock at {self.server.now}"

    @invariant()
    def tokens_grow(self) -> None:
        """A token never decreases and names one holder; the record of the one before it is never written again."""
        records = self.server.records
        for before, after in itertools.pairwise(records):
            assert after.transitions - before.transitions == (after.holder not in ("", before.holder)), (before, after)
        grants = [token for contender in self.contenders for token in contender.grants]
        assert len(grants) == len(set(grants))

    @invariant()
    def target_is_written_in_the_order_of_tokens(self) -> None:
        assert self.server.targets == sorted(self.server.targets)

    def teardown(self) -> None:
        """After the faults, and the holder's death, someone acquires within a lease and the pauses around it."""
        if self.contenders:
            self.resume()
            self.heal()
            self.kill(HOLDER)
            self.somebody_acquires()
            schedules["steps"] += len(self.server.records)
            for contender in self.contenders:
                contender.kill()

    def somebody_acquires(self) -> None:
        record = self.server.record
        pauses = 2 * 2.4 + 2
        end = self.server.now + (record.lease_seconds if record else 0) + pauses
        before = sum(len(contender.grants) for contender in self.contenders)
        while sum(len(contender.grants) for contender in self.contenders) == before:
            assert self.server.now < end, f"nobody took over from {record} by {self.server.now}"
            self.everyone()
            self.server.now += 0.25

    def everyone(self) -> None:
        """Each contender goes on until it sleeps, at most for a dozen steps."""
        for contender in self.contenders:
            for _ in range(12):
                if contender.ready:
                    contender.step()
                    self.at_most_one_believes()


def explore(examples: int, evidence: Counter[str], steps: int = 30) -> None:
    schedules.clear()
    profile = settings(
        max_examples=examples, stateful_step_count=steps, deadline=None, database=None, derandomize=True,
        suppress_health_check=list(HealthCheck), phases=(Phase.generate, Phase.shrink),
    )
    run_state_machine_as_test(Locking, settings=profile)
    evidence["schedules"] += schedules["schedules"]
    evidence["lock faults"] += schedules["faults"]
    assert schedules["schedules"] >= examples * 0.9


def test_some_schedules(evidence: Counter[str]) -> None:
    """L2: in a few hundred schedules at most one believes to hold, tokens only grow, and someone always gets on."""
    explore(300, evidence)


@pytest.mark.nightly
@pytest.mark.timeout(3600)
def test_many_schedules(evidence: Counter[str]) -> None:
    """L2: the same in ten thousand schedules, and longer ones."""
    explore(10_500, evidence, steps=50)
