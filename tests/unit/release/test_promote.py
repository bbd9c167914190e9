"""The alias, which nothing fences: written as late as can be, by no one who knows better, and read back."""

from __future__ import annotations

import pytest

from airflow_provider_ragops.exceptions import FencedOutError, RegistryError
from tests.unit.release.effects import Effects, watched
from tests.unit.release.test_crash import RELEASE
from tests.unit.release.world import TIMES, make_world_with_candidate


def test_alias_is_not_written_by_who_was_taken_over() -> None:
    """X1: taken over between renewal and alias: the alias is not written at all, not even for a moment."""
    world = make_world_with_candidate()
    renewal = RELEASE.index("set_alias")

    def freeze() -> None:
        world.tier.time.seconds += TIMES.lease + 1
        world.add("3", against="2", partition="2026-03-01")
        world.release("3")

    with watched(world, Effects(renewal, True, freeze)) as effects, pytest.raises(FencedOutError):
        world.release("2")
    assert "set_alias" not in effects.names
    world.assert_whole("3")


def test_alias_is_read_back() -> None:
    """M2: someone else's alias write in the same moment wins: the release says so, and is not done."""
    world = make_world_with_candidate()
    set_alias = world.registry.set_alias

    def outrun(model: str, alias: str, version: str) -> None:
        set_alias(model, alias, version)
        set_alias(model, alias, "7")

    world.registry.set_alias = outrun  # type: ignore[method-assign]
    with pytest.raises(RegistryError, match=r"just written; saw version 7"):
        world.release("2")
    assert world.record["phase"] == "verified"
