"""A target that nobody is releasing to: what is repaired, and what is only reported."""

from __future__ import annotations

import pytest

from airflow_provider_ragops.exceptions import ReleaseRefusedError
from airflow_provider_ragops.release.repair import LEFTOVER_KEYS, survey
from tests.unit.release.effects import RELEASE, Effects, watched
from tests.unit.release.world import TIMES, Killed, World, make_world_with_candidate


def kill() -> None:
    raise Killed


def make_world_killed_at(nth: int) -> World:
    world = make_world_with_candidate()
    with watched(world, Effects(nth, True, kill)), pytest.raises(Killed):
        world.release("2")
    return world


def look(world: World) -> list[str]:
    def read(session, token: int) -> list[str]:
        return [finding.what for finding in survey(session)]

    return world.under_lock(read)


def test_whole_target_needs_nothing() -> None:
    """Nothing is found, and nothing is written, where everything agrees."""
    world = make_world_with_candidate()
    before = world.tier.deployment["metadata"]["resourceVersion"]
    assert look(world) == []
    assert world.tier.deployment["metadata"]["resourceVersion"] == before


def test_interrupted_rollout_is_taken_back() -> None:
    """M8, A6: nobody came back to a rollout that died: the last good version serves again."""
    world = make_world_killed_at(RELEASE.index("open") + 2)
    assert look(world) == ["undo"]
    assert [finding.what for finding in world.repair()] == ["undo"]
    world.assert_whole("1")


def test_verified_rollout_is_promoted() -> None:
    """Pods were verified, the alias lags: it follows."""
    world = make_world_killed_at(RELEASE.index("open") + 3)
    assert look(world) == ["promote"]
    world.repair()
    world.assert_whole("2")


def test_open_entry_is_closed() -> None:
    """An entry that was opened by a release that never touched the target."""
    world = make_world_killed_at(RELEASE.index("open") + 1)
    assert look(world) == ["close"]
    world.repair()
    world.assert_whole("1")
    assert world.outcomes("2") == ["aborted"]


def test_leftover_keys_are_found_and_removed() -> None:
    """C5: keys of versions that nothing refers to go; those of the champion and the challenger stay."""
    world = make_world_with_candidate()
    world.registry.aliases["challenger"] = "2"
    world.keys = {"0", "1", "2"}
    assert look(world) == [LEFTOVER_KEYS]
    assert "keys of version 0" in world.repair()[0].reason
    assert world.keys == {"1", "2"}


def test_persons_alias_is_reported_not_overwritten() -> None:
    """M2: an alias that a person moved needs a person; nothing was touched."""
    world = make_world_with_candidate()
    world.registry.aliases["champion"] = "2"
    with pytest.raises(ReleaseRefusedError, match="alias names 2, the pods serve 1"):
        world.repair()
    assert world.registry.aliases["champion"] == "2"


def test_deleted_champion_is_reported() -> None:
    """M6: the champion's version was deleted, and its alias with it: the pods serve on, a person is told."""
    world = make_world_with_candidate()
    del world.registry.aliases["champion"], world.registry.tags["1"]
    with pytest.raises(ReleaseRefusedError, match=r"the champion has no version: 1 was deleted"):
        world.repair()
    assert world.tier.version() == "1"


def test_person_releases_over_a_deleted_champion() -> None:
    """M6: automatic releases stop; a person's release makes the target whole again."""
    world = make_world_with_candidate()
    del world.registry.aliases["champion"], world.registry.tags["1"]
    with pytest.raises(ReleaseRefusedError, match="has no version"):
        world.release("2")
    assert world.release("2", manual=True).changed
    world.assert_whole("2")


def test_late_alias_of_a_holder_that_died_is_put_back() -> None:
    """X1: frozen in the alias write, taken over, thawed, killed right after the write: a repair puts it back."""
    world = make_world_with_candidate()
    alias_write = RELEASE.index("set_alias") + 1

    def freeze() -> None:
        world.tier.time.seconds += TIMES.lease + 1
        world.add("3", against="2", partition="2026-03-01")
        world.release("3")

    with watched(world, Effects(alias_write, False, freeze)):
        original = world.registry.set_alias

        def late(*args: str) -> None:
            original(*args)
            if world.record["to_version"] == "3" and args[2] == "2":
                raise Killed

        world.registry.set_alias = late  # type: ignore[method-assign]
        with pytest.raises(Killed):
            world.release("2")
    assert world.registry.aliases["champion"] == "2"
    assert world.record["to_version"] == "3"
    assert look(world) == ["set alias"]
    world.repair()
    world.assert_whole("3")
