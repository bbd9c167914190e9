"""Rollback, hold, chosen versions: what a person may do, and what stays out of automatic reach."""

from __future__ import annotations

import pytest

from airflow_provider_ragops.contract import TAG_COMPLETED, TAG_GATE_VERDICT, TAG_QUARANTINED
from airflow_provider_ragops.exceptions import (
    RegistryError,
    ReleaseRefusedError,
    RolloutFailedError,
    TargetError,
    UnreachableError,
)
from airflow_provider_ragops.promotion.registry import VersionInfo
from airflow_provider_ragops.release import procedure
from airflow_provider_ragops.release.record import Phase
from tests.unit.release.world import World, make_world_serving, make_world_with_candidate


def make_world_serving_2() -> World:
    world = make_world_with_candidate()
    world.keys = {"1", "2"}
    world.release("2")
    return world


def test_rollback_moves_everything_as_one_unit() -> None:
    """C12: pods, alias, record and ledger go back; the bad version is quarantined, the target held, its keys kept."""
    world = make_world_serving_2()
    outcome = world.roll_back("users complain")
    world.assert_whole("1")
    assert (outcome.version, outcome.previous) == ("1", "2")
    assert world.registry.tags["2"][TAG_QUARANTINED] == "users complain"
    assert world.record["hold"] == "users complain"
    entry = list(world.ledger.entries.values())[-1]
    assert (entry.kind, entry.from_version, entry.to_version, entry.outcome) == ("rollback", "2", "1", "released")
    assert (entry.actor, entry.reason) == ("a person", "users complain")
    assert world.keys >= {"1"}


def test_rollback_goes_to_the_recorded_last_good() -> None:
    """R3: v1 good, v2 undone, v3 bad after its release: back to v1, never to v2."""
    world = make_world_with_candidate()
    world.tier.broken["2"] = "nan"
    with pytest.raises(RolloutFailedError):
        world.release("2")
    world.add("3", against="1", partition="2026-03-01")
    world.release("3")
    world.roll_back()
    world.assert_whole("1")


def test_rollback_without_a_last_good_is_refused() -> None:
    """After a first release, and after a rollback, there is no other good version: nothing is touched."""
    world = make_world_serving("1")
    with pytest.raises(ReleaseRefusedError, match="last good none"):
        world.roll_back()
    world.assert_whole("1")
    world = make_world_serving_2()
    world.roll_back()
    with pytest.raises(ReleaseRefusedError, match="serving 1, last good 1"):
        world.roll_back("another reason")
    assert world.roll_back().changed is False  # a retry of the same


def test_rollback_works_while_mlflow_is_down() -> None:
    """The pods go back and the target is held without MLflow; the books follow with the next repair."""
    world = make_world_serving_2()
    registry, ledger = world.registry, world.ledger
    world.registry = world.ledger = Down()  # type: ignore[assignment]
    with pytest.raises(UnreachableError):
        world.roll_back()
    assert world.pod_versions() == {"1"}
    assert (world.record["phase"], world.record["hold"]) == ("rolling back", "it is bad")
    world.registry, world.ledger = registry, ledger
    assert [finding.what for finding in world.repair()] == ["undo"]
    world.assert_whole("1")
    assert TAG_QUARANTINED in world.registry.tags["2"]


def test_interrupted_release_is_taken_back_while_mlflow_is_down() -> None:
    """A6: a release that died in mid-rollout: a repair brings the pods back without MLflow, the books follow."""
    world = make_world_with_candidate()
    world.die_in_mid_rollout("2")
    registry, ledger = world.registry, world.ledger
    world.registry = world.ledger = Down()  # type: ignore[assignment]
    with pytest.raises(UnreachableError):
        world.repair()
    assert world.pod_versions() == {"1"}
    world.registry, world.ledger = registry, ledger
    world.repair()
    world.assert_whole("1")


def test_quarantine_is_not_skipped_for_want_of_a_right() -> None:
    """Only a version that is gone goes unmarked: where MLflow refuses to show it, the undo ends when it may."""
    world = make_world_with_candidate()
    world.tier.broken["2"] = "nan"
    shown = world.registry.version

    def refuse(model: str, version: str) -> VersionInfo:
        if world.record["phase"] == Phase.UNDOING:
            raise RegistryError("version 2", expected="permission", seen="403", action="Ask for it.")
        return shown(model, version)

    world.registry.version = refuse  # type: ignore[method-assign]
    with pytest.raises(RegistryError, match="403"):
        world.release("2")
    assert world.record["phase"] == Phase.UNDOING
    world.registry.version = shown  # type: ignore[method-assign]
    world.repair()
    world.assert_whole("1")
    assert TAG_QUARANTINED in world.registry.tags["2"]


class Down:
    def __getattr__(self, name: str) -> object:
        def refuse(*_: object) -> None:
            raise UnreachableError("MLflow", expected="an answer", seen="none", action="Wait.")

        return refuse


def test_rollback_stops_an_interrupted_release() -> None:
    """A release that died in mid-rollout is undone by the rollback: its version is quarantined for the reason."""
    world = make_world_with_candidate()
    world.die_in_mid_rollout("2")
    world.roll_back("enough")
    world.assert_whole("1")
    assert world.registry.tags["2"][TAG_QUARANTINED] == "enough"
    assert world.outcomes("2") == ["undone"]


def test_rollback_leaves_an_edited_deployment_alone() -> None:
    """MODEL_VERSION set by hand is a person's edit for a rollback, too."""
    world = make_world_serving_2()
    world.tier.edit("7")
    with pytest.raises(ReleaseRefusedError, match="MODEL_VERSION is 7"):
        world.roll_back()
    assert world.tier.version() == "7"


def test_rollback_that_fails_names_both_versions() -> None:
    """R11: the old version does not come back: the error names both, the lock is free, the alias has not moved."""
    world = make_world_serving_2()
    world.tier.broken["1"] = "crash"
    with pytest.raises(TargetError, match=r"undo of version 2 to version 1.*rolling back"):
        world.roll_back()
    assert world.lock["holder"] == ""
    assert world.registry.aliases["champion"] == "2"


def test_hold_stops_automatic_releases_until_it_is_lifted() -> None:
    """An automatic release names the hold's reason; a person may release; lifting it lets the schedule go on."""
    world = make_world_with_candidate()
    world.under_lock(lambda session, token: procedure.hold(session, "an incident", token))
    with pytest.raises(ReleaseRefusedError, match="on hold: an incident"):
        world.release("2")
    assert world.release("2", manual=True).changed
    assert world.record["hold"] == "an incident"
    world.add("3", against="2", partition="2026-03-01")
    with pytest.raises(ReleaseRefusedError, match="on hold"):
        world.release("3")
    world.under_lock(lambda session, token: procedure.hold(session, "", token))
    assert world.release("3").changed


def test_release_interrupted_before_a_hold_does_not_go_on() -> None:
    """Killed in mid-rollout, then put on hold: the retry takes it back instead of finishing it."""
    world = make_world_with_candidate()
    world.die_in_mid_rollout("2")
    world.under_lock(lambda session, token: procedure.hold(session, "an incident", token))
    with pytest.raises(ReleaseRefusedError, match="on hold"):
        world.release("2")
    world.assert_whole("1")


def test_person_may_choose_an_older_version() -> None:
    """M9: what an automatic release refuses (older data, another champion since), a person may choose."""
    world = make_world_serving_2()
    world.add("3", against="1", partition="2025-01-01")
    with pytest.raises(ReleaseRefusedError, match=r"judged it against version 1.*older than 2026-02-01"):
        world.release("3")
    assert world.release("3", manual=True).changed
    world.assert_whole("3")
    assert world.record["newest_partition"] == "2026-02-01"


def test_person_needs_the_gate_or_an_approval() -> None:
    """No flag skips the gate: without its 'promote', a named approval stands in, and both are in the ledger."""
    world = make_world_serving_2()
    world.add("3", against="2", partition="2026-03-01")
    world.registry.tags["3"][TAG_GATE_VERDICT] = "reject"
    with pytest.raises(ReleaseRefusedError, match="the gate said reject"):
        world.release("3", manual=True)
    with pytest.raises(ReleaseRefusedError, match="the gate said reject"):
        world.release("3", approval="an automatic run approves nothing")
    world.release("3", manual=True, approval="ann: seen the report, the slice is empty")
    assert list(world.ledger.entries.values())[-1].approval.startswith("ann")


@pytest.mark.parametrize("tag", [TAG_COMPLETED, TAG_QUARANTINED])
def test_no_approval_replaces_proof(tag: str) -> None:
    """An incomplete or quarantined version is released by nobody."""
    world = make_world_serving_2()
    world.add("3", against="2", partition="2026-03-01")
    if tag == TAG_COMPLETED:
        del world.registry.tags["3"][tag]
    else:
        world.registry.tags["3"][tag] = "it was bad"
    with pytest.raises(ReleaseRefusedError):
        world.release("3", manual=True, approval="ann")


def test_rollback_to_a_chosen_version_quarantines_and_holds() -> None:
    """Back to a named version: the one it replaces is quarantined, the target is held."""
    world = make_world_serving_2()
    world.add("3", against="2", partition="2026-03-01")
    world.release("3")
    world.release("1", manual=True, rollback=True)
    world.assert_whole("1")
    assert world.registry.tags["3"][TAG_QUARANTINED] == "why not"
    assert world.record["hold"] == "why not"
    assert list(world.ledger.entries.values())[-1].kind == "rollback"


def test_rollout_and_promotion_stand_alone() -> None:
    """Pods first, the alias in a task of its own; a second promotion changes nothing."""
    world = make_world_with_candidate()
    request = procedure.ReleaseRequest("2", "r2", "a test", "why not")
    world.under_lock(lambda session, token: procedure.roll_out(session, request, token))
    assert (world.record["phase"], world.registry.aliases["champion"]) == ("verified", "1")
    assert world.pod_versions() == {"2"}
    for changed in (True, False):
        promoted = world.under_lock(lambda session, token: procedure.promote_verified(session, "2", token))
        assert promoted.changed is changed
        world.assert_whole("2")


def test_promotion_without_a_verified_rollout_is_refused() -> None:
    """The alias never moves to a version that the pods were not seen to serve."""
    world = make_world_with_candidate()
    with pytest.raises(ReleaseRefusedError, match="expected a verified rollout to it; saw version 1"):
        world.under_lock(lambda session, token: procedure.promote_verified(session, "2", token))
    world.assert_whole("1")
