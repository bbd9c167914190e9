"""Rollback and hold, at Airflow's edge; what they call: ``tests/unit/release/test_rollback.py``."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_ragops.contract import TAG_QUARANTINED
from airflow_provider_ragops.exceptions import TargetError, UnreachableError
from airflow_provider_ragops.operators.release import ModelReleaseOperator
from airflow_provider_ragops.operators.rollback import ModelHoldOperator, ModelRollbackOperator
from tests.unit.operators.edge import connect, create_context
from tests.unit.operators.pods import link_of
from tests.unit.release.world import TARGET, World, make_world_with_candidate


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    """Version 2 serves, version 1 is the last good one."""
    found = make_world_with_candidate()
    found.release("2")
    connect(found, monkeypatch)
    return found


def roll_back(reason: str = "users complain", **context: Any) -> dict[str, Any]:
    operator = ModelRollbackOperator(task_id="roll_back", target=TARGET, reason=reason)
    told: dict[str, Any] = operator.execute(create_context(**context))
    return told


def test_template_fields() -> None:
    """What the form asks for is rendered."""
    assert set(ModelRollbackOperator.template_fields) == {"target", "redis_conn_id", "reason"}
    assert set(ModelHoldOperator.template_fields) == {"target", "redis_conn_id", "reason"}


def test_rollback_quarantines_holds_and_names_the_person(world: World) -> None:
    """R3: back to the recorded last good version; record, ledger and quarantine say who asked and why."""
    told = roll_back(person="ada")
    world.assert_whole("1")
    assert (told["version"], told["previous"], told["changed"]) == ("1", "2", True)
    assert world.registry.tags["2"][TAG_QUARANTINED] == world.record["hold"] == "users complain"
    entry = list(world.ledger.entries.values())[-1]
    assert (entry.kind, entry.reason) == ("rollback", "users complain")
    assert entry.actor.startswith("ada in d/run-1/")


def test_retry_of_a_rollback_rolls_back_once(world: World) -> None:
    """A1: the retry of a try that was done, but whose success was lost, does not go back one version more."""
    roll_back()
    assert roll_back(try_number=2)["changed"] is False
    world.assert_whole("1")


@pytest.mark.parametrize("reason", ["", "None", "  "])
def test_rollback_needs_a_reason(world: World, reason: str) -> None:
    """The next person on call must know why automatic releases are stopped."""
    before = world.tier.writes[:]
    with pytest.raises(AirflowFailException, match="parameter 'reason': expected a value"):
        roll_back(reason)
    assert world.tier.writes == before


def test_nothing_to_go_back_to_is_told_without_a_retry(world: World) -> None:
    """After a rollback there is no other good version: refused, and the person is told to name one."""
    roll_back()
    with pytest.raises(AirflowFailException, match=r"serving 1, last good 1.*Name the version"):
        roll_back("once more, please")


def test_rollback_that_fails_links_what_there_is(world: World) -> None:
    """R11: the old version does not come back: both versions are named; there is no entry to link yet."""
    world.tier.broken["1"] = "crash"
    operator = ModelRollbackOperator(task_id="roll_back", target=TARGET, reason="users complain", rollout_timeout=30)
    with pytest.raises((TargetError, AirflowFailException), match=r"version 2.*version 1"):
        operator.execute(create_context())
    assert link_of(operator) == ""
    assert world.lock["holder"] == ""


def test_rollback_goes_on_when_mlflow_is_back(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The pods are back before MLflow is asked; the retry settles alias, quarantine and ledger."""
    with monkeypatch.context() as outage:

        def down(*_: object) -> None:
            raise UnreachableError("MLflow", expected="an answer", seen="none", action="Wait.")

        for part in (world.registry, world.ledger):
            for call in ("alias", "set_tags", "open", "close", "history", "open_entries"):
                outage.setattr(part, call, down, raising=False)
        with pytest.raises(UnreachableError):
            roll_back()
    assert (world.pod_versions(), world.registry.aliases["champion"]) == ({"1"}, "2")
    roll_back(try_number=2)
    world.assert_whole("1")
    assert world.registry.tags["2"][TAG_QUARANTINED] == "users complain"


def test_rollback_from_a_deleted_version(world: World) -> None:
    """M6: the champion's version was deleted in MLflow, and its alias with it: a rollback makes the target whole."""
    del world.registry.tags["2"], world.registry.aliases["champion"]
    roll_back()
    world.assert_whole("1")
    assert world.record["phase"] == "done"


def test_hold_and_lift(world: World) -> None:
    """A hold refuses the schedule's release with its reason, and lets it go on once it is lifted."""
    world.add("3", against="2", partition="2026-03-01")
    release = ModelReleaseOperator(task_id="release", target=TARGET, version="3")
    ModelHoldOperator(task_id="hold", target=TARGET, reason="an incident").execute(create_context())
    with pytest.raises(AirflowFailException, match="on hold: an incident"):
        release.execute(create_context(run_type="scheduled"))
    ModelHoldOperator(task_id="lift_hold", target=TARGET, reason="").execute(create_context())
    assert world.record["hold"] == ""
    assert release.execute(create_context("run-2", run_type="scheduled"))["changed"]
