"""The operators that release, roll out and promote, at Airflow's edge; what they call: ``tests/unit/release``."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import nullcontext
from typing import Any
from unittest.mock import Mock

import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from airflow_provider_ragops.contract import TAG_GATE_VERDICT, ServingTarget
from airflow_provider_ragops.exceptions import LockHeldError, LockLostError, ReleaseRefusedError, UnreachableError
from airflow_provider_ragops.hooks.mlflow import MlflowHook
from airflow_provider_ragops.hooks.serving import ServingHook
from airflow_provider_ragops.locking.times import LockTimes
from airflow_provider_ragops.operators.release import (
    ModelPromoteOperator,
    ModelReleaseOperator,
    ModelRolloutOperator,
)
from airflow_provider_ragops.operators.target import ServingTargetOperator
from airflow_provider_ragops.operators.translation import translated_errors
from airflow_provider_ragops.release import procedure
from airflow_provider_ragops.release.request import ReleaseOutcome
from tests.fakes.kube import FakeKube
from tests.unit.operators.edge import DETAILS, connect, create_context
from tests.unit.operators.pods import link_of
from tests.unit.release.world import TARGET, World, make_world_with_candidate

APPROVAL = {
    "chosen_options": ["Approve"], "params_input": {}, "responded_at": "2026-11-30T10:00:00+00:00",
    "responded_by_user": {"id": "7", "name": "Ada"},
}
IMPATIENT = LockTimes(lease=2, renew_deadline=1.9, retry=0.1, wait=2.5)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    """Version 1 serves; version 2 passed the gate."""
    found = make_world_with_candidate()
    connect(found, monkeypatch)
    monkeypatch.setattr(FakeKube, "timeout", 0.5)
    return found


def create_operator(**changes: Any) -> ModelReleaseOperator:
    return ModelReleaseOperator(**{"task_id": "release", "target": TARGET, "version": "2"} | changes)


def test_template_fields() -> None:
    """What a run chooses is rendered; a target given as a value is rendered field by field."""
    assert set(ModelReleaseOperator.template_fields) == {
        "target", "redis_conn_id", "version", "reason", "manual", "rollback",
    }  # fmt: skip
    assert create_operator().target == TARGET.as_dict()


def test_release_tells_what_it_did_and_what_it_cost(world: World) -> None:
    """The XCom holds versions, token, release id, seconds of the lock and API calls by verb; the ledger the actor."""
    world.tier.calls = Counter({"GET": 30, "PUT": 5})  # type: ignore[attr-defined]
    operator = create_operator()
    told = operator.execute(create_context(person="ada"))
    world.assert_whole("2")
    assert (told["version"], told["previous"], told["changed"]) == ("2", "1", True)
    assert told["token"] == int(world.record["token"])
    assert told["lock_seconds"] >= 0
    assert told["api_calls"] == {"GET": 30, "PUT": 5}
    (entry,) = [each for each in world.ledger.entries.values() if each.to_version == "2"]
    assert (entry.actor, told["release_id"]) == ("ada in d/run-1/release/-1/try 1", entry.release_id)
    assert json.loads(json.dumps(told)) == told


def test_repeat_changes_nothing(world: World) -> None:
    """A1: clearing a finished task, or a try that follows a lost success, releases nothing a second time."""
    create_operator().execute(create_context())
    again = create_operator().execute(create_context(try_number=2))
    assert again["changed"] is False
    assert world.outcomes("2") == ["released"]


def test_every_try_is_the_same_release(world: World) -> None:
    """A retry of one task instance resumes its release; another run, another version or target is another one."""
    operator = create_operator()
    first = operator._request(create_context(), TARGET)
    retry = operator._request(create_context(try_number=2), TARGET)
    assert first.release_id == retry.release_id
    assert first.release_id != operator._request(create_context("run-2"), TARGET).release_id
    assert first.release_id != create_operator(version="3")._request(create_context(), TARGET).release_id
    assert first.release_id != operator._request(create_context(), ServingTarget("elsewhere", "M")).release_id


@pytest.mark.parametrize("version", ["", "None", "champion", "v3", "3.0", "-3"])
def test_version_must_be_a_number(version: str) -> None:
    """A missing or symbolic version fails without retry, before the cluster is asked for anything."""
    with pytest.raises(AirflowFailException, match="a model version"):
        create_operator(version=version).execute(create_context())


@pytest.mark.parametrize("operator", [ModelReleaseOperator, ModelRolloutOperator])
def test_backfill_never_releases(world: World, operator: type[ModelRolloutOperator]) -> None:
    """A2: a backfill's task is skipped before it takes the lock, whatever its flags say."""
    before = world.tier.writes[:]
    with pytest.raises(AirflowSkipException, match="never releases"):
        operator(task_id="release", target=TARGET, version="2").execute(create_context(run_type="backfill"))
    with pytest.raises(AirflowSkipException):
        create_operator(manual=True).execute(create_context(run_type="backfill"))
    assert world.tier.writes == before


@pytest.mark.parametrize("run_type", ["scheduled", "asset_triggered", "operator_triggered"])
def test_manual_is_for_people(world: World, run_type: str) -> None:
    """The flag that lets a person pass a hold is refused in every run that no person triggered."""
    before = world.tier.writes[:]
    with pytest.raises(AirflowFailException, match=f"manual=True, rollback=False in a {run_type} run"):
        create_operator(manual=True).execute(create_context(run_type=run_type))
    with pytest.raises(AirflowFailException, match="rollback only"):
        create_operator(rollback=True).execute(create_context(run_type="manual"))
    assert world.tier.writes == before


def test_approval_counts_only_in_a_manual_release(world: World) -> None:
    """Without the gate's 'promote' an approval is needed, is written down, and helps no automatic release."""
    world.registry.tags["2"][TAG_GATE_VERDICT] = "reject"
    operator = create_operator(approval_task_id="approve")
    with pytest.raises(AirflowFailException, match="the gate said reject"):
        operator.execute(create_context(approve=APPROVAL))
    manual = create_operator(approval_task_id="approve", manual="True")
    with pytest.raises(AirflowFailException, match="the gate said reject"):
        manual.execute(create_context())
    assert manual.execute(create_context(approve=APPROVAL))["changed"]
    (entry,) = [each for each in world.ledger.entries.values() if each.to_version == "2"]
    assert entry.approval.startswith("approved by Ada at 2026-11-30")


def test_rollout_and_promotion_are_two_tasks(world: World) -> None:
    """Each takes the lock itself; a promotion of what no rollout verified is refused."""
    promote = ModelPromoteOperator(task_id="promote", target=TARGET, version="2")
    with pytest.raises(AirflowFailException, match="expected a verified rollout to it"):
        promote.execute(create_context())
    ModelRolloutOperator(task_id="rollout", target=TARGET, version="2").execute(create_context())
    assert (world.record["phase"], world.registry.aliases["champion"], world.lock["holder"]) == ("verified", "1", "")
    assert promote.execute(create_context())["changed"]
    world.assert_whole("2")


def test_keys_are_cleaned_where_redis_is_named(world: World) -> None:
    """An empty or rendered-from-None connection means no Redis: a target chosen by name may have none."""
    world.keys = {"0", "1"}
    create_operator(redis_conn_id="").execute(create_context())
    create_operator(redis_conn_id="None").execute(create_context())
    assert world.keys == {"0", "1"}
    create_operator(redis_conn_id="redis_default").execute(create_context())
    assert world.keys == {"1"}


def test_stop_is_read_before_each_effect(world: World) -> None:
    """A1: ``on_kill`` returns into the running body, which makes no further effect and ends in a retry."""
    operator = create_operator()
    at_kill: list[int] = []

    def kill(verb: str, path: str) -> None:
        if verb == "PUT" and world.tier.version() == "2" and not at_kill:
            operator.on_kill()
            at_kill.append(len(_of_the_tier(world)))

    world.tier.after = kill
    with pytest.raises(LockLostError, match="told to stop"):
        operator.execute(create_context())
    assert len(_of_the_tier(world)) == at_kill[0]
    assert (world.registry.aliases["champion"], world.lock["holder"]) == ("1", "")
    assert create_operator().execute(create_context(try_number=2))["changed"]
    world.assert_whole("2")


def _of_the_tier(world: World) -> list[tuple[str, str]]:
    return [write for write in world.tier.writes if write[1] == world.tier.path]


def test_waiter_that_was_killed_takes_no_lock(world: World) -> None:
    """A1: told to stop while it waits for the lock, a task ends; it does not take the lock when that is free."""
    operator = create_operator(lock_times=LockTimes(lease=60, renew_deadline=20, retry=0.1, wait=100))
    store = ServingHook().lock_store(TARGET)
    lock = ServingHook().lock(TARGET, "another", "a release")
    lock.acquire()
    world.tier.time.on_sleep = operator.on_kill
    with pytest.raises(LockLostError, match="told to stop"):
        operator.execute(create_context())
    found = store.read()
    assert found is not None
    assert found.record.holder == lock.identity


def test_busy_lock_is_tried_again_later(world: World) -> None:
    """A2: a living holder is named in an error that Airflow retries; nothing of the target was touched."""
    lock = ServingHook().lock(TARGET, "another/run", "release M 7", LockTimes(lease=600))
    lock.acquire()
    before = _of_the_tier(world)
    with pytest.raises(LockHeldError, match=r"held by 'another/run/.* for 'release M 7'"):
        create_operator(lock_times=IMPATIENT, rollout_timeout=10, blessing_timeout=None).execute(create_context())
    assert _of_the_tier(world) == before


@pytest.mark.parametrize("fault", ["", "nan"])
def test_task_links_to_the_ledger(
    mlflow_store: MlflowHook, monkeypatch: pytest.MonkeyPatch, fault: str,
) -> None:
    """The button opens the ledger's entry, of a release that was done and of one that was undone."""
    found = make_world_with_candidate()
    ledger = mlflow_store.ledger()
    found.ledger = ledger  # type: ignore[assignment]
    connect(found, monkeypatch)
    found.tier.broken |= {"2": fault} if fault else {}
    operator = create_operator()
    with pytest.raises(AirflowFailException, match="quarantined") if fault else nullcontext():
        operator.execute(create_context())
    (entry,) = [each for each in ledger.history(TARGET.slug) if each.to_version == "2"]
    assert entry.outcome == ("undone" if fault else "released")
    assert link_of(operator) == f"page of {entry.run_id}"


def test_missing_link_hides_nothing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """MLflow fails when it is asked for the entry: a good release stays good, a fault stays the one that is told."""
    outcome = ReleaseOutcome("2", "1", 1, "r", True)
    monkeypatch.setattr(procedure, "release", Mock(side_effect=[outcome, LockHeldError("lock", **DETAILS)]))
    monkeypatch.setattr(world.ledger, "history", Mock(side_effect=UnreachableError("MLflow", **DETAILS)))
    assert create_operator().execute(create_context())["version"] == "2"
    with pytest.raises(LockHeldError):
        create_operator().execute(create_context())


def test_permanent_errors_are_not_retried_and_others_are() -> None:
    """A refusal ends the task for good; a busy lock may be free at the next try."""
    with pytest.raises(AirflowFailException, match="saw y"), translated_errors():
        raise ReleaseRefusedError("release", **DETAILS)
    with pytest.raises(LockHeldError), translated_errors():
        raise LockHeldError("lock", **DETAILS)


@pytest.mark.parametrize("change", [{"model": None}, {"port": "x"}, {"no": 1}, {"allow_unavailable": "perhaps"}])
def test_impossible_target_is_named(change: dict[str, object]) -> None:
    """A missing or unknown field, or one of the wrong kind, fails without retry and lists the fields."""
    target = {name: value for name, value in {**TARGET.as_dict(), **change}.items() if value is not None}
    with pytest.raises(AirflowFailException, match="serving target: expected the fields namespace, model"):
        create_operator(target=target).execute(create_context())


def test_rendered_target_is_the_target() -> None:
    """Templates render every field as text; ``False`` must not come back as true."""
    assert ServingTarget.of({name: str(value) for name, value in TARGET.as_dict().items()}) == TARGET
    assert ServingTarget.of({**TARGET.as_dict(), "allow_unavailable": "True"}).allow_unavailable is True


@pytest.mark.parametrize("given", [{"rollout_timeout": 1800.0}, {"rollout_timeout": 1700.0, "blessing_timeout": 200.0}])
def test_rollout_must_fit_into_the_hold(given: dict[str, float]) -> None:
    """L14: blessing, rollout and undo have to end before the lock's longest hold does."""
    with pytest.raises(AirflowFailException, match=f"rollout_timeout {given['rollout_timeout']:g} s"):
        create_operator(**given).execute(create_context())


def test_release_begins_while_mlflow_is_down(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """An interrupted rollout is undone without MLflow, so nothing asks it before the release does."""
    monkeypatch.undo()
    connection = {"conn_type": "mlflow", "host": "http://127.0.0.1:9"}
    monkeypatch.setenv("AIRFLOW_CONN_MLFLOW_DEFAULT", json.dumps(connection))
    monkeypatch.setattr(world.tier, "calls", Counter(), raising=False)
    monkeypatch.setattr(ServingHook, "kube", world.tier)
    began = Mock(return_value=ReleaseOutcome("2", "1", 1, "r", True))
    monkeypatch.setattr(procedure, "release", began)
    create_operator().execute(create_context())
    assert began.called


def test_base_does_nothing_by_itself() -> None:
    """Whoever extends it says what it does."""
    with pytest.raises(NotImplementedError):
        ServingTargetOperator(task_id="none", target=TARGET).execute(create_context())
