"""The release operator at Airflow's edge; what it calls is tested in ``tests/unit/release``."""

from __future__ import annotations

import json
from contextlib import nullcontext
from datetime import datetime, timezone
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_ragops.contract import ServingTarget
from airflow_provider_ragops.exceptions import (
    LockHeldError,
    RagopsError,
    ReleaseRefusedError,
    RolloutFailedError,
    UnreachableError,
)
from airflow_provider_ragops.hooks.mlflow import MlflowHook
from airflow_provider_ragops.hooks.serving import ServingHook
from airflow_provider_ragops.operators.release import ModelReleaseOperator
from airflow_provider_ragops.operators.translation import translated_errors
from airflow_provider_ragops.promotion.ledger import LedgerEntry, MlflowLedger
from airflow_provider_ragops.release.procedure import Release, ReleaseOutcome, ReleaseRequest
from tests.fakes.kube import FakeKube
from tests.unit.operators.pods import link_of

TARGET = ServingTarget("ml-serving", "M")


def create_operator(**changes: object) -> ModelReleaseOperator:
    return ModelReleaseOperator(**{"task_id": "release", "target": TARGET, "version": "3"} | changes)


def create_context(run_id: str = "run-1", try_number: int = 1) -> dict[str, object]:
    ti = SimpleNamespace(dag_id="d", run_id=run_id, task_id="release", map_index=-1, try_number=try_number)
    return {"ti": ti}


def test_template_fields() -> None:
    """Target, version and reason are rendered; a target given as a value is rendered field by field."""
    assert set(ModelReleaseOperator.template_fields) == {"target", "version", "reason"}
    assert create_operator().target == TARGET.as_dict()


def test_every_try_is_the_same_release() -> None:
    """A retry of one task instance resumes its release; another run is another one."""
    operator = create_operator()
    first = operator._request(create_context(), TARGET)  # type: ignore[arg-type]
    retry = operator._request(create_context(try_number=2), TARGET)  # type: ignore[arg-type]
    other = operator._request(create_context("run-2"), TARGET)  # type: ignore[arg-type]
    assert first.release_id == retry.release_id != other.release_id
    assert retry.actor == "d/run-1/release/-1/try 2"


@pytest.mark.parametrize("version", ["", "None", "champion", "v3"])
def test_version_must_be_a_number(version: str) -> None:
    """A missing or symbolic version fails without retry, before the cluster is asked for anything."""
    with pytest.raises(AirflowFailException, match="a model version"):
        create_operator(version=version).execute(create_context())  # type: ignore[arg-type]


@pytest.fixture
def lockable(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cluster for the lock; pages are named by their runs, because the store of the tests has none."""
    monkeypatch.setattr(ServingHook, "kube", FakeKube())
    monkeypatch.setattr(MlflowHook, "run_url", lambda _, run: f"page of {run.info.run_id}")


def ledger_entry(release_id: str) -> LedgerEntry:
    return LedgerEntry(release_id, TARGET.slug, "M", None, "3", 1, "a test", "why", "", datetime.now(timezone.utc))


@pytest.mark.usefixtures("lockable")
@pytest.mark.parametrize("fault", [None, RolloutFailedError("M", expected="x", seen="it crashed", action="z")])
def test_task_links_to_the_ledger(
    mlflow_store: MlflowHook, monkeypatch: pytest.MonkeyPatch, fault: RagopsError | None
) -> None:
    """The button opens the ledger's entry, of a release that was done and of one that was undone."""

    def run(release: Release, request: ReleaseRequest, token: int) -> ReleaseOutcome:
        for release_id in (request.release_id, "another"):
            release.ledger.open(ledger_entry(release_id))
        if fault:
            raise fault
        return ReleaseOutcome("3", "", token, request.release_id, True)

    monkeypatch.setattr(Release, "run", run)
    operator = create_operator()
    with pytest.raises(AirflowFailException, match="it crashed") if fault else nullcontext():
        operator.execute(create_context())  # type: ignore[arg-type]
    entries = {entry.release_id: entry for entry in mlflow_store.ledger().history(TARGET.slug)}
    wanted = entries[operator._request(create_context(), TARGET).release_id]  # type: ignore[arg-type]
    assert link_of(operator) == f"page of {wanted.run_id}"


@pytest.mark.usefixtures("lockable")
def test_missing_link_hides_nothing(mlflow_store: MlflowHook, monkeypatch: pytest.MonkeyPatch) -> None:
    """MLflow fails when it is asked for the entry: a good release stays good, a fault stays the one that is told."""
    outcome = ReleaseOutcome("3", "", 1, "r", True)
    fault = LockHeldError("lock", expected="x", seen="y", action="z")
    silent = UnreachableError("MLflow", expected="an answer", seen="none", action="z")
    monkeypatch.setattr(MlflowLedger, "history", Mock(side_effect=silent))
    monkeypatch.setattr(Release, "run", Mock(side_effect=[outcome, fault]))

    assert create_operator().execute(create_context())["version"] == "3"  # type: ignore[arg-type]
    with pytest.raises(LockHeldError):
        create_operator().execute(create_context())  # type: ignore[arg-type]


def test_permanent_errors_are_not_retried_and_others_are() -> None:
    """A refusal ends the task for good; a busy lock may be free at the next try."""
    details = {"expected": "x", "seen": "y", "action": "z"}
    with pytest.raises(AirflowFailException, match="saw y"), translated_errors():
        raise ReleaseRefusedError("release", **details)
    with pytest.raises(LockHeldError), translated_errors():
        raise LockHeldError("lock", **details)


@pytest.mark.parametrize("change", [{"model": None}, {"port": "x"}, {"no": 1}])
def test_impossible_target_is_named(change: dict[str, object]) -> None:
    """A missing or unknown field, or a port that is no number, fails without retry and lists the fields."""
    target = {name: value for name, value in {**TARGET.as_dict(), **change}.items() if value is not None}
    with pytest.raises(AirflowFailException, match="serving target: expected the fields namespace, model"):
        create_operator(target=target).execute(create_context())  # type: ignore[arg-type]


def test_rollout_must_fit_into_the_hold() -> None:
    """A rollout and its undo have to end before the lock's longest hold does."""
    with pytest.raises(AirflowFailException, match="rollout_timeout 1800 s"):
        create_operator(rollout_timeout=1800.0).execute(create_context())  # type: ignore[arg-type]


@pytest.mark.usefixtures("lockable")
def test_release_begins_while_mlflow_is_down(monkeypatch: pytest.MonkeyPatch) -> None:
    """An interrupted rollout is undone without MLflow, so nothing asks it before the release does."""
    monkeypatch.setenv("AIRFLOW_CONN_MLFLOW_DEFAULT", json.dumps({"conn_type": "mlflow", "host": "http://127.0.0.1:9"}))
    began = Mock(return_value=ReleaseOutcome("3", "", 1, "r", True))
    monkeypatch.setattr(Release, "run", began)
    create_operator().execute(create_context())  # type: ignore[arg-type]
    assert began.called
