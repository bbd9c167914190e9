"""The whole release on a scripted serving tier with real write semantics."""

from __future__ import annotations

import json
from typing import Any

import pytest

from airflow_provider_ragops.contract import (
    ANNOTATION_RELEASE,
    TAG_COMPLETED,
    TAG_GATE_CHAMPION,
    TAG_GATE_CHAMPION_RUN,
    TAG_GATE_VERDICT,
    TAG_PARTITION,
    TAG_QUARANTINED,
)
from airflow_provider_ragops.exceptions import (
    ClusterError,
    FencedOutError,
    LockLostError,
    RegistryError,
    ReleaseRefusedError,
    RolloutFailedError,
    TargetError,
    UnreachableError,
)
from airflow_provider_ragops.release.verify import Verification
from airflow_provider_ragops.rollout.updater import Updater
from tests.unit.release.effects import RELEASE, Effects, watched
from tests.unit.release.world import TARGET, TIMES, World, make_world_serving, make_world_with_candidate


def test_first_release_bootstraps() -> None:
    """A tier without a version gets its first one; there is no last good yet."""
    world = make_world_serving("1")
    world.assert_whole("1")
    assert world.record["phase"] == "done"
    assert world.record["last_good"] == ""


def test_second_release_moves_everything_together() -> None:
    """Template, pods, alias, record and ledger move; the one before is the last good; strangers' data stay."""
    world = make_world_serving("1")
    world.add("2", against="1", partition="2026-02-01")
    outcome = world.release("2")
    world.assert_whole("2")
    assert (outcome.previous, outcome.changed) == ("1", True)
    assert world.record["last_good"] == "1"
    assert world.record["newest_partition"] == "2026-02-01"
    assert world.outcomes("2") == ["released"]
    assert world.registry.tags["1"]["ragops.replaced_by"] == "2"
    assert world.tier.deployment["metadata"]["annotations"]["owner"] == "someone"


def test_token_lives_outside_the_pod_template() -> None:
    """A seal alone restarts no pod: the template is untouched by everything but the version."""
    world = make_world_serving("1")
    before = world.tier.deployment["spec"]["template"]
    world.release("1")
    assert world.tier.deployment["spec"]["template"] == before
    assert "annotations" not in before["metadata"]


def test_repeat_is_a_no_op() -> None:
    """Releasing the served champion again changes nothing but the token."""
    world = make_world_serving("1")
    token = world.record["token"]
    assert world.release("1").changed is False
    world.assert_whole("1")
    assert world.record["token"] > token


@pytest.mark.parametrize("fault", ["crash", "other", "nan", "hang"])
def test_bad_version_is_undone_and_quarantined(fault: str) -> None:
    """A version that crashes, serves another one, answers nonsense or not at all: undone with its first pod."""
    world = make_world_with_candidate()
    world.tier.broken["2"] = fault
    with pytest.raises(RolloutFailedError, match="Version 1 is serving again; 2 is quarantined"):
        world.release("2")
    world.assert_whole("1")
    assert world.record["phase"] == "undone"
    assert TAG_QUARANTINED in world.registry.tags["2"]
    assert world.outcomes("2") == ["undone"]
    assert world.tier.most_pods["2"] == 1


@pytest.mark.parametrize(("fault", "reason"), [("slow", "latency 1000 ms is over 2 times"), ("collide", "Collision")])
def test_verification_finds_what_single_answers_do_not(fault: str, reason: str) -> None:
    """A version that is much slower than the one before, or whose log tells of collisions, is undone."""
    world = make_world_with_candidate()
    world.tier.broken["2"] = fault
    with pytest.raises(RolloutFailedError, match=reason):
        world.release("2")
    world.assert_whole("1")


def test_verification_reads_the_log_of_a_pod_that_is_no_longer_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    """C7: a new pod that met another's marker has just left the Service; the others' good answers do not hide it."""
    world = make_world_serving("1")
    lost = world.tier.pods[-1]
    lost["status"]["conditions"][0]["status"] = "False"
    line = '{"message": "no longer ready", "code": "cache_key_collision"}'
    monkeypatch.setattr(world.tier, "text", lambda path, _: line if f"/{lost['metadata']['name']}/" in path else "")
    updater = Updater(world.tier, TARGET, clock=world.tier.time.clock, sleep=world.tier.time.sleep)  # type: ignore[arg-type]
    found = Verification(updater, TARGET, lambda _: None).fault("1", world.registry.input_example("M", "1"))
    assert found == f"pod {lost['metadata']['name']}: cache_key_collision in its log"


def test_own_missing_right_is_no_fault_of_the_version() -> None:
    """Where the account may not ask pods, nothing is undone or quarantined: the error names the right."""
    world = make_world_with_candidate()
    world.tier.refuse = (403, "forbidden")
    with pytest.raises(ClusterError, match="pods/proxy"):
        world.release("2")
    world.tier.refuse = None
    assert TAG_QUARANTINED not in world.registry.tags["2"]
    world.assert_whole("1")
    assert world.release("2").changed


def test_evicted_pods_do_not_block() -> None:
    """A leftover pod in phase Failed is nobody's: the release ignores it."""
    world = make_world_with_candidate()
    read, evicted = world.tier.list, world.tier._pod("1")
    evicted["status"] |= {"phase": "Failed", "reason": "Evicted"}

    def with_evicted(path: str, selector: str, fields: str = "") -> list[dict[str, Any]]:
        found = read(path, selector, fields)
        return [*found, evicted] if found and found[0] in world.tier.pods else found

    world.tier.list = with_evicted  # type: ignore[method-assign]
    assert world.release("2").changed


@pytest.mark.parametrize(("change", "reason"), [({"replicas": 0}, "0 replicas"), ({"paused": True}, "paused")])
def test_target_that_cannot_roll_is_refused(change: dict[str, object], reason: str) -> None:
    """A paused Deployment, or one without replicas, is refused before anything is written."""
    world = make_world_with_candidate()
    world.tier.deployment["spec"] |= change
    with pytest.raises(ReleaseRefusedError, match=reason):
        world.release("2")
    assert world.outcomes("2") == []
    assert world.tier.version() == "1"


def test_undo_without_mlflow_brings_the_pods_back() -> None:
    """The pods return while MLflow is down; the next try settles the quarantine before anything else."""
    world = make_world_with_candidate()
    world.tier.broken["2"] = "nan"
    set_tags = world.registry.set_tags

    def down(*_: object) -> None:
        raise UnreachableError("MLflow", expected="an answer", seen="none", action="Wait.")

    world.registry.set_tags = down  # type: ignore[method-assign]
    with pytest.raises(UnreachableError):
        world.release("2")
    assert world.tier.version() == "1"
    assert world.record["phase"] == "undoing"
    world.registry.set_tags = set_tags  # type: ignore[method-assign]
    with pytest.raises(ReleaseRefusedError, match="quarantined"):
        world.release("2")
    world.assert_whole("1")


def test_undone_to_version_can_be_asked_for_again() -> None:
    """Releasing what an undo went back to is a no-op, not a refusal."""
    world = make_world_with_candidate()
    world.tier.broken["2"] = "nan"
    with pytest.raises(RolloutFailedError):
        world.release("2")
    assert world.release("1").changed is False


def test_ledger_that_disagrees_does_not_wedge_the_target() -> None:
    """An entry that is missing or was closed otherwise is logged; the release goes on."""
    world = make_world_with_candidate()

    def refuse(*_: object) -> None:
        raise RegistryError("ledger", expected="an open entry", seen="closed", action="Look.")

    world.ledger.close = refuse  # type: ignore[method-assign]
    assert world.release("2").changed
    assert world.registry.aliases["champion"] == "2"


def test_alias_moved_during_the_rollout_is_left_alone() -> None:
    """M2: a person who moves the champion while pods roll is reported, not overwritten."""
    world = make_world_with_candidate()

    def edit(spare: float) -> None:
        if world.tier.version() == "2":
            world.registry.aliases["champion"] = "7"

    with pytest.raises(ReleaseRefusedError, match="moved to 7 meanwhile"):
        world.release("2", guard=edit)
    assert world.registry.aliases["champion"] == "7"


def test_challenger_no_longer_waits_after_its_release() -> None:
    """The released version leaves the challenger alias; another challenger keeps it."""
    world = make_world_serving("1")
    for version, challenger, left in (("2", "2", None), ("3", "9", "9")):
        world.add(version, against=world.registry.aliases["champion"])
        world.registry.aliases["challenger"] = challenger
        world.release(version)
        assert world.registry.aliases.get("challenger") == left


def test_newest_partition_is_the_one_that_ends_last() -> None:
    """A day inside an already released week is older than the week, whatever its text sorts like."""
    world = World()
    world.add("1", partition="2026-11-20_2026-11-30")
    world.release("1")
    world.add("2", against="1", partition="2026-11-25")
    with pytest.raises(ReleaseRefusedError, match="older than 2026-11-20_2026-11-30"):
        world.release("2")


def test_bad_first_version_is_undone_to_none() -> None:
    """Before a first release there is nothing to go back to: the version is taken away again."""
    world = World()
    world.add("1")
    world.tier.broken["1"] = "crash"
    with pytest.raises(RolloutFailedError, match="Version none is serving again"):
        world.release("1")
    assert world.tier.version() == ""
    # Left as the chart has it: a helm upgrade would stop at a strategy that someone else owns.
    assert world.tier.deployment["spec"]["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}
    assert world.record["to_version"] == ""
    assert "champion" not in world.registry.aliases


def test_quarantined_version_is_refused_on_retry() -> None:
    """A retry of an undone release does not try the bad version again."""
    world = make_world_with_candidate()
    world.tier.broken["2"] = "nan"
    with pytest.raises(RolloutFailedError):
        world.release("2")
    with pytest.raises(ReleaseRefusedError, match="quarantined"):
        world.release("2")
    world.assert_whole("1")


@pytest.mark.parametrize(("tags", "reason"), [
    ({TAG_GATE_VERDICT: "reject"}, "the gate said reject"),
    ({TAG_GATE_CHAMPION: "9"}, "judged it against version 9, but 1 is serving"),
    ({TAG_PARTITION: "2025-01-01"}, "older than 2026-01-01"),
    ({TAG_QUARANTINED: "it was bad"}, "it was bad"), ({TAG_PARTITION: ""}, "which partition"),
])  # fmt: skip
def test_unfit_candidates_are_refused_untouched(tags: dict[str, str], reason: str) -> None:
    """Each check before the rollout refuses with its own reason, and nothing was touched."""
    world = make_world_with_candidate()
    world.registry.tags["2"].update(tags)
    with pytest.raises(ReleaseRefusedError, match=reason):
        world.release("2")
    world.assert_whole("1")


def test_persons_edit_of_the_alias_is_reported_not_overwritten() -> None:
    """A champion alias moved by hand stops the release and stays as the person left it."""
    world = make_world_with_candidate()
    world.registry.aliases["champion"] = "7"
    with pytest.raises(ReleaseRefusedError, match="alias names 7, the pods serve 1"):
        world.release("2")
    assert world.registry.aliases["champion"] == "7"
    assert world.tier.version() == "1"


def test_persons_edit_of_the_deployment_is_reported_not_overwritten() -> None:
    """MODEL_VERSION set by hand stops the release and stays as the person left it."""
    world = make_world_with_candidate()
    world.tier.edit("7")
    with pytest.raises(ReleaseRefusedError, match="MODEL_VERSION is 7"):
        world.release("2")
    assert world.tier.version() == "7"


def test_foreign_record_is_refused() -> None:
    """A release record that can't be read is never replaced."""
    world = World()
    world.add("1")
    world.tier.deployment["metadata"]["annotations"][ANNOTATION_RELEASE] = "{}"
    with pytest.raises(TargetError, match="schema 1"):
        world.release("1")
    assert world.tier.deployment["metadata"]["annotations"][ANNOTATION_RELEASE] == "{}"


def test_former_holder_is_fenced_out() -> None:
    """L1: a holder that froze inside a write while a competitor sealed writes nothing more, and says both tokens."""
    world = make_world_with_candidate()
    world.add("3", against="1", partition="2026-03-01")
    verified = RELEASE.index("open") + 3  # the ledger, the record with MODEL_VERSION, verified

    def freeze() -> None:
        world.tier.time.seconds += TIMES.lease + 1
        world.release("3")

    told = r"token \d+ \(mine\).*token \d+ \(current\)"
    with watched(world, Effects(verified, False, freeze)), pytest.raises(FencedOutError, match=told):
        world.release("2")
    world.assert_whole("3")
    assert world.outcomes("2") == ["undone"]


def test_seal_of_a_thawed_holder_meets_its_guard() -> None:
    """A holder that was frozen before its seal does not fence out the living one: the guard comes after the read."""
    world = make_world_serving("1")
    world.add("2", against="1", partition="2026-02-01")
    token = world.record["token"]

    def lost(spare: float) -> None:
        raise LockLostError("lock", expected="a hold", seen="none", action="Retry.")

    with pytest.raises(LockLostError):
        world.release("2", guard=lost)
    assert world.record["token"] == token


def test_lost_lock_stops_before_the_next_effect() -> None:
    """A guard that says no leaves the target as it stands, for the next try to resume."""
    world = make_world_with_candidate()

    def lose(spare: float) -> None:
        if world.tier.version() == "2":
            raise LockLostError("lock", expected="a hold", seen="none", action="Retry.")

    with pytest.raises(LockLostError):
        world.release("2", guard=lose)
    assert world.record["phase"] == "rolling"
    world.release("2")
    world.assert_whole("2")


def test_clean_up_keeps_what_is_still_needed() -> None:
    """After a release the served version, the last good one and a challenger that waits stay."""
    world = make_world_with_candidate()
    world.registry.aliases["challenger"] = "9"
    world.keys = {"0", "1", "2", "9"}
    world.release("2")
    assert world.keys == {"1", "2", "9"}
    assert "last good of Deployment ml-serving/mlflow-serve" in world.kept[-1]["1"]


def test_refused_candidate_is_not_measured_first() -> None:
    """The checks come before anything is asked of pods: a refusal costs no request."""
    world = make_world_with_candidate()
    world.registry.tags["2"][TAG_GATE_VERDICT] = "reject"
    world.tier.asked.clear()
    with pytest.raises(ReleaseRefusedError):
        world.release("2")
    assert world.tier.asked == []


def test_edit_during_the_rollout_is_reported_not_overwritten() -> None:
    """MODEL_VERSION set by hand while pods roll: the release stops and leaves it."""
    world = make_world_with_candidate()

    def edit(spare: float) -> None:
        if world.tier.version() == "2":
            world.tier.edit("7")

    with pytest.raises(TargetError, match="expected MODEL_VERSION 2; saw 7"):
        world.release("2", guard=edit)
    assert world.tier.version() == "7"
    assert world.registry.aliases["champion"] == "1"


@pytest.mark.parametrize(("tag", "reason"), [(TAG_COMPLETED, "completion marker"), (TAG_GATE_VERDICT, "said nothing")])
def test_missing_proof_is_refused(tag: str, reason: str) -> None:
    """A version without its completion marker or the gate's verdict is never released."""
    world = make_world_with_candidate()
    del world.registry.tags["2"][tag]
    with pytest.raises(ReleaseRefusedError, match=reason):
        world.release("2")


def test_hold_stops_releases() -> None:
    """A target on hold takes no release; the reason is told."""
    world = make_world_with_candidate()
    annotations = world.tier.deployment["metadata"]["annotations"]
    annotations[ANNOTATION_RELEASE] = json.dumps(world.record | {"hold": "an incident"})
    with pytest.raises(ReleaseRefusedError, match="on hold: an incident"):
        world.release("2")


def test_conflicts_on_a_write_are_tried_again() -> None:
    """The controller writes the status all the time: a changed resourceVersion is read again, not given up on."""
    world = make_world_with_candidate()
    busy = [3]

    def touch(spare: float) -> None:
        if busy[0]:
            busy[0] -= 1
            world.tier.put(world.tier.path, world.tier.deployment)

    assert world.release("2", guard=touch).changed
    assert busy == [0]


def test_keys_of_an_earlier_life_of_the_number_go_first() -> None:
    """M7: the registered model was made anew and counts from 1 again: old keys of the number go before it serves."""
    world = make_world_with_candidate()
    world.keys, world.stale = {"1", "2"}, {"2"}
    seen: list[set[str]] = []
    create = world.tier.create

    def look(path: str, body: dict[str, Any]) -> dict[str, Any]:
        seen.append(set(world.keys))
        return create(path, body)

    world.tier.create = look  # type: ignore[method-assign]
    world.release("2")
    assert seen == [{"1"}]


def test_keys_of_both_versions_that_mix_undo_the_release() -> None:
    """What is found wrong with the key spaces while both versions run takes the new one back."""
    world = make_world_with_candidate()
    world.key_space_fault = "marker of version 2 names another model"
    with pytest.raises(RolloutFailedError, match="names another model"):
        world.release("2")
    world.assert_whole("1")


def test_silent_redis_does_not_stop_a_release(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pods answer without their cache: a Redis that does not answer says nothing about the version."""
    world = make_world_with_candidate()

    def silent(*_: object) -> None:
        raise UnreachableError("Redis", expected="an answer", seen="none", action="Wait.")

    for name in ("clean", "clean_stale", "fault"):
        monkeypatch.setattr(world, name, silent)
    assert world.release("2").changed
    world.assert_whole("2")


def test_lock_rises_to_the_token_of_the_record() -> None:
    """L5: the Deployment is deleted or undone by hand after a release; the next token is larger all the same."""
    world = make_world_with_candidate()
    world.release("2")
    token = int(world.record["token"])
    assert int(world.lock["transitions"]) >= token
    del world.tier.deployment["metadata"]["annotations"][ANNOTATION_RELEASE]
    assert world.under_lock(lambda session, lock_token: session.seal(lock_token).token) > token


def test_verdict_against_an_earlier_life_of_the_champion_is_refused() -> None:
    """M7: the model was made anew and its version 1 serves; a verdict against the old version 1 does not count."""
    world = make_world_with_candidate()
    world.registry.tags["2"][TAG_GATE_CHAMPION_RUN] = "the run of the old version 1"
    with pytest.raises(ReleaseRefusedError, match="the model was made anew"):
        world.release("2")
    world.registry.tags["2"][TAG_GATE_CHAMPION_RUN] = "run"
    assert world.release("2").changed
