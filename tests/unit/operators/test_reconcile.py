"""The operator that looks after a target; what it calls: ``tests/unit/release/test_repair.py``."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_ragops.exceptions import LockLostError
from airflow_provider_ragops.hooks.serving import ServingHook
from airflow_provider_ragops.locking.times import LockTimes
from airflow_provider_ragops.operators import reconcile
from airflow_provider_ragops.operators.reconcile import ModelReconcileOperator
from tests.unit.operators.edge import connect, create_context
from tests.unit.release.world import TARGET, World, make_world_with_candidate

TIMES = LockTimes(lease=3, renew_deadline=2.5, retry=0.1, wait=600)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    """Version 1 serves, version 2 waits; other versions have no keys."""
    found = make_world_with_candidate()
    connect(found, monkeypatch)
    return found


def run(**changes: Any) -> list[tuple[str, bool]]:
    given = {"task_id": "reconcile", "target": TARGET, "redis_conn_id": "redis_default"} | changes
    told = ModelReconcileOperator(**given).execute(create_context(run_type="scheduled"))
    assert told["target"] == TARGET.slug
    return [(finding["what"], finding["needs_person"]) for finding in told["findings"]]


def killed_in_mid_rollout(world: World) -> None:
    def die(spare: float) -> None:
        if world.tier.version() == "2":
            raise SystemExit

    with pytest.raises(SystemExit):
        world.release("2", guard=die)


def test_template_fields() -> None:
    """The form's ``repair`` is rendered, and read back from text."""
    assert set(ModelReconcileOperator.template_fields) == {"target", "redis_conn_id", "repair"}


def test_whole_target_costs_no_write(world: World) -> None:
    """Every 15 minutes: nothing is found, and neither lock nor record is written."""
    before = world.tier.writes[:]
    assert run() == []
    assert world.tier.writes == before


def test_interrupted_release_is_undone(world: World) -> None:
    """A5: what a killed release left half-way goes back to the last good version, and the finding says so."""
    killed_in_mid_rollout(world)
    world.tier.objects.pop(next(path for path in world.tier.objects if "configmaps" in path))
    assert run() == [("undo", False)]
    world.assert_whole("1")
    assert run() == []


@pytest.mark.parametrize("repair", [False, "False"])
def test_only_reporting_writes_nothing(world: World, repair: bool | str) -> None:
    """With ``repair`` off it says what it would do."""
    killed_in_mid_rollout(world)
    world.tier.objects.pop(next(path for path in world.tier.objects if "configmaps" in path))
    before = world.tier.writes[:]
    assert run(repair=repair) == [("undo", False)]
    assert world.tier.writes == before


def test_dead_holder_is_succeeded(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A6: the lock of a killed release is free again after its lease, and its release was taken back."""
    ServingHook().lock(TARGET, "dead/run", "release M 2", TIMES).acquire()
    found = run(lock_times=LockTimes(lease=3, renew_deadline=2.5, retry=0.1, wait=600), rollout_timeout=10)
    assert found == [("stale lock", False)]
    world.assert_whole("1")


def test_running_release_is_left_alone(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A2: where the holder lives, nothing is done, nothing fails, and the finding names the holder."""
    monkeypatch.setattr(reconcile, "PATIENCE", 0.2)
    holder = ServingHook().lock(TARGET, "living/run", "release M 2", LockTimes(lease=600))
    holder.acquire()
    before = world.tier.writes[:]
    times = LockTimes(lease=1, renew_deadline=0.9, retry=0.1, wait=2)
    monkeypatch.setattr(world.tier.__class__, "timeout", 0.4)
    operator = ModelReconcileOperator(task_id="r", target=TARGET, lock_times=times, rollout_timeout=10)
    (finding,) = operator.execute(create_context())["findings"]
    assert finding["what"] == "held lock"
    assert "living/run" in finding["reason"]
    assert world.tier.writes == before


def test_it_does_not_wait_for_a_release_to_end() -> None:
    """It waits for two leases, not for half an hour: the next run comes in 15 minutes."""
    operator = ModelReconcileOperator(task_id="r", target=TARGET)
    assert operator.times().wait == 2 * LockTimes().lease + reconcile.PATIENCE < LockTimes().wait
    brief = ModelReconcileOperator(task_id="r", target=TARGET, lock_times=LockTimes(wait=60))
    assert brief.times().wait == 60


@pytest.mark.parametrize("edit", ["alias", "template"])
def test_persons_edit_fails_the_task_and_stays(world: World, edit: str) -> None:
    """M2: an alias or a version set by hand is told by a failure that is not retried, and left as it is."""
    if edit == "alias":
        world.registry.set_alias("M", "champion", "2")
    else:
        world.tier.edit("2")
    for repair in (True, False):
        with pytest.raises(AirflowFailException, match=r"Nothing was touched|The edit was left as it is"):
            run(repair=repair)
    assert (world.registry.aliases["champion"], world.tier.version()) == (
        ("2", "1") if edit == "alias" else ("1", "2")
    )
    assert world.lock["holder"] == ""


def test_leftover_keys_are_removed(world: World) -> None:
    """Keys of a version that nothing refers to are found and removed; those of referred ones stay."""
    world.keys = {"0", "1"}
    assert run() == [("leftover keys", False)]
    assert world.keys == {"1"}


def test_stop_ends_a_repair(world: World) -> None:
    """A1: told to stop, it makes no further effect; the next run goes on."""
    killed_in_mid_rollout(world)
    world.tier.objects.pop(next(path for path in world.tier.objects if "configmaps" in path))
    operator = ModelReconcileOperator(task_id="r", target=TARGET)
    operator.on_kill()
    with pytest.raises(LockLostError, match="told to stop"):
        operator.execute(create_context())
    assert world.tier.version() == "2"
    assert run() == [("undo", False)]
