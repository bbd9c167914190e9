"""The whole release on a scripted serving tier with real write semantics."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from airflow_provider_ragops.contract import (
    ANNOTATION_RELEASE,
    NO_VERSION,
    TAG_COMPLETED,
    TAG_GATE_CHAMPION,
    TAG_GATE_VERDICT,
    TAG_PARTITION,
    TAG_QUARANTINED,
    ServingTarget,
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
from airflow_provider_ragops.release.procedure import Release, ReleaseOutcome, ReleaseRequest
from airflow_provider_ragops.rollout.updater import Updater
from tests.fakes.kube import FakeTier
from tests.fakes.registry import FakeLedger, FakeRegistry

TARGET = ServingTarget("ml-serving", "M")


class Killed(BaseException):
    """The process is gone: nothing of it runs after this."""


@dataclass
class World:
    """Everything outside the release's process."""

    tier: FakeTier = field(default_factory=FakeTier)
    registry: FakeRegistry = field(default_factory=FakeRegistry)
    ledger: FakeLedger = field(default_factory=FakeLedger)
    tokens: int = 0

    def release(
        self, version: str, guard: Callable[[float], None] = lambda spare: None, release_id: str = "",
        cleaned: list[set[str]] | None = None,
    ) -> ReleaseOutcome:
        self.tokens += 1
        time = self.tier.time
        updater = Updater(self.tier, TARGET, clock=time.clock, sleep=time.sleep)  # type: ignore[arg-type]
        clean = None if cleaned is None else cleaned.append
        release = Release(TARGET, updater, self.registry, self.ledger, guard, timeout=60, clean=clean)
        return release.run(ReleaseRequest(version, release_id or f"r{version}", "a test", "why not"), self.tokens)

    def add(self, version: str, against: str = NO_VERSION, partition: str = "2026-01-01", **tags: str) -> None:
        self.registry.add(version, **{
            TAG_COMPLETED: "a", TAG_GATE_VERDICT: "promote", TAG_GATE_CHAMPION: against, TAG_PARTITION: partition,
        }, **tags)

    def outcomes(self, version: str) -> list[str | None]:
        return [entry.outcome for entry in self.ledger.entries.values() if entry.to_version == version]

    @property
    def record(self) -> dict[str, str]:
        found: dict[str, str] = json.loads(self.tier.deployment["metadata"]["annotations"][ANNOTATION_RELEASE])
        return found

    def assert_whole(self, version: str) -> None:
        """Alias, template, pods and record name the same version, and no ledger entry is open."""
        assert self.tier.version() == version
        assert {p["spec"]["containers"][0]["env"][0]["value"] for p in self.tier.pods} == {version}
        assert self.registry.aliases.get("champion") == version
        assert self.record["to_version"] == version
        assert not self.ledger.open_entries(TARGET.slug)


def make_world_serving(version: str = "1") -> World:
    world = World()
    world.add(version)
    world.release(version)
    return world


def make_world_with_candidate() -> World:
    """Version 1 serves; version 2 passed the gate against it and waits."""
    world = make_world_serving("1")
    world.add("2", against="1")
    return world


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
    world.tier.list = lambda path, selector: [*read(path, selector), evicted]  # type: ignore[method-assign]
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
    """L1: a holder that was paused while a competitor sealed writes nothing more, and says both tokens."""
    world = make_world_serving("1")
    world.add("2", against="1", partition="2026-02-01")
    world.add("3", against="1", partition="2026-03-01")
    paused = [True]

    def pause_once(spare: float) -> None:
        if paused and world.tier.version() == "2":
            paused.clear()
            world.release("3")  # the competitor runs to its end, then the paused one thaws

    with pytest.raises(FencedOutError, match=r"token \d+ \(mine\).*token \d+ \(current\)"):
        world.release("2", guard=pause_once)
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


def count_effects() -> int:
    world, effects = make_world_serving("1"), [0]
    world.add("2", against="1")
    install(world, lambda: effects.__setitem__(0, effects[0] + 1), after=True)
    world.release("2")
    return effects[0]


def install(world: World, hook: Callable[[], None], *, after: bool) -> None:
    """Call ``hook`` before or after each external effect, whichever system it is on."""
    if after:
        world.tier.after = lambda verb, path: hook()
    else:
        world.tier.before = lambda verb, path: hook() if verb in ("PUT", "POST") else None
    for owner, name in ((world.registry, "set_alias"), (world.registry, "set_tags"), (world.ledger, "open"),
                        (world.ledger, "close")):
        setattr(owner, name, wrapped(getattr(owner, name), hook, after))


def wrapped(call: Callable[..., None], hook: Callable[[], None], after: bool) -> Callable[..., None]:
    def effect(*args: object) -> None:
        if after:
            call(*args)
            hook()
        else:
            hook()
            call(*args)

    return effect


EFFECTS = 9  # checked below: a change of the procedure has to be met here


def test_number_of_effects() -> None:
    """The crash tests below enumerate every external effect of a release."""
    assert count_effects() == EFFECTS


UNDO_EFFECTS = 7


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("at", range(1, UNDO_EFFECTS + 1))
def test_killed_at_every_effect_of_an_undo(at: int, after: bool) -> None:
    """X1: killed anywhere in a release that fails, the bad version is back to the last good one and stays out."""
    world, seen = make_world_serving("1"), [0]
    world.add("2", against="1", partition="2026-02-01")
    world.tier.broken["2"] = "nan"

    def kill() -> None:
        seen[0] += 1
        if seen[0] == at:
            raise Killed

    install(world, kill, after=after)
    with pytest.raises(Killed):
        world.release("2")
    with pytest.raises((RolloutFailedError, ReleaseRefusedError), match="quarantined"):
        world.release("2")
    world.assert_whole("1")
    assert TAG_QUARANTINED in world.registry.tags["2"]
    with pytest.raises(ReleaseRefusedError, match="quarantined"):
        world.release("2")


def test_number_of_effects_of_an_undo() -> None:
    """The crash tests enumerate the undo, too."""
    world, effects = make_world_serving("1"), [0]
    world.add("2", against="1")
    world.tier.broken["2"] = "nan"
    install(world, lambda: effects.__setitem__(0, effects[0] + 1), after=True)
    with pytest.raises(RolloutFailedError):
        world.release("2")
    assert effects[0] == UNDO_EFFECTS


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("at", range(1, EFFECTS + 1))
@pytest.mark.parametrize("next_version", ["2", "3"], ids=["retry", "competitor"])
def test_killed_at_every_effect(at: int, after: bool, next_version: str) -> None:
    """X1: killed before or after any effect, a retry or a competitor ends in a wholly new world."""
    world, seen = make_world_serving("1"), [0]
    world.add("2", against="1", partition="2026-02-01")

    def kill() -> None:
        seen[0] += 1
        if seen[0] == at:
            raise Killed

    install(world, kill, after=after)
    tokens = [world.record["token"]]
    with pytest.raises(Killed):
        world.release("2")
    tokens.append(world.record["token"])
    if next_version == "3":
        verified = world.record["phase"] in ("verified", "done") and world.record["to_version"] == "2"
        world.add("3", against="2" if verified else "1", partition="2026-03-01")
    world.release(next_version)
    world.assert_whole(next_version)
    tokens.append(world.record["token"])
    assert tokens == sorted(tokens)


def test_clean_up_keeps_what_is_still_needed() -> None:
    """After a release the served version, the last good one and a challenger that waits stay."""
    world, cleaned = make_world_with_candidate(), list[set[str]]()
    world.registry.aliases["challenger"] = "9"
    world.release("2", cleaned=cleaned)
    assert cleaned == [{"1", "2", "9"}]


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
