"""X1: a process dies or freezes at every external effect; a retry or a competitor, and one repair, put it right."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import pytest

from airflow_provider_ragops.contract import TAG_QUARANTINED
from airflow_provider_ragops.exceptions import RagopsError, ReleaseRefusedError, RolloutFailedError
from tests.unit.release.effects import RELEASE, ROLLBACK, UNDO, Effects, watched
from tests.unit.release.world import TIMES, Killed, World, make_world_with_candidate

MODES = pytest.mark.parametrize("after", [False, True], ids=["before", "after"])


def make_world() -> World:
    """Version 1 serves, 2 waits; Redis holds keys of both, and of one that nothing refers to."""
    world = make_world_with_candidate()
    world.registry.aliases["challenger"] = "2"
    world.keys = {"0", "1", "2"}
    return world


def release_2(world: World) -> None:
    world.release("2")


def release_bad_2(world: World) -> None:
    break_2(world)
    with pytest.raises(RolloutFailedError):
        world.release("2")


def break_2(world: World) -> None:
    """Version 2 answers nonsense in the tier, though it did well beside it."""
    world.tier.broken["2"] = "nan"


def make_world_serving_2() -> World:
    world = make_world()
    world.release("2")
    return world


def roll_back(world: World) -> None:
    world.roll_back()


@pytest.mark.parametrize(("make", "work", "names"), [
    (make_world, release_2, RELEASE), (make_world, release_bad_2, UNDO), (make_world_serving_2, roll_back, ROLLBACK),
], ids=["release", "undo", "rollback"])  # fmt: skip
def test_effects_are_enumerated(make: Callable[[], World], work: Callable[[World], None], names: list[str]) -> None:
    """The crash tests below know every external effect, in its order."""
    world = make()
    with watched(world, Effects()) as effects:
        work(world)
    assert effects.names == names


class Tokens:
    """Watches the record's token: it may only grow."""

    def __init__(self, world: World) -> None:
        self._world, self.seen = world, [int(world.record["token"])]
        write = world.tier.after

        def look(verb: str, path: str) -> None:
            write(verb, path)
            self.seen.append(int(world.record["token"]))

        world.tier.after = look

    def assert_never_decreased(self) -> None:
        assert self.seen == sorted(self.seen)


def assert_settled(world: World, tokens: Tokens, *versions: str) -> None:
    """Wholly old or wholly new; one entry of the ledger for each rollout; no key of a needed version is gone."""
    version = world.tier.version()
    assert version in versions
    world.assert_whole(version)
    tokens.assert_never_decreased()
    assert {version, world.record["last_good"]} - {"", "3"} <= world.keys
    assert all(len(world.outcomes(each)) <= 2 for each in ("2", "3"))
    assert "0" not in world.keys


def judged_now(world: World) -> str:
    """The champion that a gate would judge a competitor against: what the next reconcile will leave serving."""
    record = world.record
    finished = record["phase"] in ("verified", "done") and record["to_version"] == "2"
    return "2" if finished else "1"


@MODES
@pytest.mark.parametrize("at", range(1, len(RELEASE) + 1))
@pytest.mark.parametrize("next_version", ["2", "3"], ids=["retry", "competitor"])
def test_killed_in_a_release(at: int, after: bool, next_version: str, evidence) -> None:
    """X1, A5, M8: killed at any effect of a release, whoever comes next ends in a wholly new world."""
    world = make_world()
    tokens = Tokens(world)
    with watched(world, Effects(at, after, kill)), pytest.raises(Killed):
        world.release("2")
    world.add("3", against=judged_now(world), partition="2026-03-01")
    world.release(next_version)
    assert_settled(world, tokens, next_version)
    evidence["schedules"] += 1


@MODES
@pytest.mark.parametrize("at", range(1, len(UNDO) + 1))
def test_killed_in_an_undo(at: int, after: bool, evidence) -> None:
    """X1: killed anywhere in a release that fails, the last good version serves again and the bad one stays out."""
    world = make_world()
    tokens = Tokens(world)
    break_2(world)
    with watched(world, Effects(at, after, kill)), pytest.raises(Killed):
        world.release("2")
    with pytest.raises((RolloutFailedError, ReleaseRefusedError), match="quarantined"):
        world.release("2")
    world.repair()
    assert_settled(world, tokens, "1")
    assert TAG_QUARANTINED in world.registry.tags["2"]
    evidence["schedules"] += 1


@MODES
@pytest.mark.parametrize("at", range(1, len(ROLLBACK) + 1))
@pytest.mark.parametrize("who", ["retry", "repair"])
def test_killed_in_a_rollback(at: int, after: bool, who: str, evidence) -> None:
    """X1: killed anywhere in a rollback, one retry or one repair finishes it as one unit, or nothing had begun."""
    world = make_world_serving_2()
    tokens = Tokens(world)
    with watched(world, Effects(at, after, kill)), pytest.raises(Killed):
        world.roll_back()
    begun = world.tier.version() == "1"
    if who == "retry":
        world.roll_back()
    world.repair()
    assert_settled(world, tokens, "1" if begun or who == "retry" else "2")
    if world.tier.version() == "1":
        assert world.record["hold"]
        assert TAG_QUARANTINED in world.registry.tags["2"]
    evidence["schedules"] += 1


@MODES
@pytest.mark.parametrize("at", range(1, len(RELEASE)))
@pytest.mark.parametrize("competitor", ["release", "repair", "roll back"])
def test_frozen_in_a_release(at: int, after: bool, competitor: str, evidence) -> None:
    """X1, L1: frozen at any effect past the lease, a competitor works, then it thaws: its late writes do no harm."""
    world = make_world()
    tokens = Tokens(world)

    def freeze() -> None:
        world.tier.time.seconds += TIMES.lease + 1
        work_beside(world, competitor)

    with watched(world, Effects(at, after, freeze)), suppress(RagopsError):
        world.release("2")
    world.repair()
    assert_settled(world, tokens, "1", "2", "3")
    evidence["schedules"] += 1


def work_beside(world: World, competitor: str) -> None:
    if competitor == "release":
        world.add("3", against=judged_now(world), partition="2026-03-01")
        world.release("3")
    elif competitor == "repair":
        world.repair()
    else:
        with suppress(ReleaseRefusedError):
            world.roll_back()


def kill() -> None:
    raise Killed


def test_frozen_between_renewal_and_alias(evidence) -> None:
    """X1: frozen between renewal and alias write; a competitor finishes; the thawed one puts the alias back."""
    world = make_world()
    at = RELEASE.index("set_alias") + 1

    def freeze() -> None:
        world.tier.time.seconds += TIMES.lease + 1
        world.add("3", against="2", partition="2026-03-01")
        world.release("3")
        assert world.registry.aliases["champion"] == "3"

    with watched(world, Effects(at, False, freeze)), pytest.raises(RagopsError, match=r"\(mine\).*\(current\)"):
        world.release("2")
    world.assert_whole("3")
    evidence["schedules"] += 1
