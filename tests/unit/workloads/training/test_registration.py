from __future__ import annotations

import pytest

from airflow_provider_ragops import contract
from airflow_provider_ragops.hooks.mlflow import MlflowHook
from airflow_provider_ragops.workloads.training.registration import Registered, complete, find_completed
from tests.stores import register
from tests.unit.workloads.training_sets import MODEL

KEY = "0123456789abcdef"


def attempt(hook: MlflowHook, name: str, *, status: str = "FINISHED", marked: bool = False) -> Registered:
    """A version as an attempt leaves it: its run ended and marked, the version's marker only where ``marked``."""
    run_id = hook.start_run("churn", "training", {contract.TAG_COMPLETED: name})
    if status != "RUNNING":
        hook.end_run(run_id, status)
    tags = {contract.TAG_REGISTRATION_KEY: KEY} | ({contract.TAG_COMPLETED: name} if marked else {})
    return Registered(register(hook, MODEL, tags, run_id), run_id, name)


@pytest.mark.parametrize("status", ["RUNNING", "FAILED", "KILLED"])
def test_marker_without_a_finished_run_is_no_proof(store: MlflowHook, status: str) -> None:
    """K1: a version whose run did not finish is not complete, whatever its tags say."""
    attempt(store, "a1", status=status, marked=True)
    assert find_completed(store.client(), MODEL, KEY) is None


def test_marker_of_another_attempt_is_no_proof(store: MlflowHook) -> None:
    """K7: run and version must carry the same attempt's marker."""
    done = attempt(store, "a1", marked=True)
    store.client().set_tag(done.run_id, contract.TAG_COMPLETED, "a2")
    assert find_completed(store.client(), MODEL, KEY) is None


def test_no_marker_anywhere_is_no_proof(store: MlflowHook) -> None:
    """K1: a finished run without a marker and a version without one do not match each other."""
    done = attempt(store, "a1")
    store.client().delete_tag(done.run_id, contract.TAG_COMPLETED)
    assert find_completed(store.client(), MODEL, KEY) is None


def test_two_living_attempts_leave_one_version(store: MlflowHook) -> None:
    """K7: two attempts of the same work both register; the second to complete is refused and told which counts."""
    first, second = attempt(store, "a1"), attempt(store, "a2")
    client = store.client()
    assert complete(client, MODEL, second, KEY) == second
    assert complete(client, MODEL, first, KEY) == second
    assert [version.version for version in store.registry().find(MODEL, {contract.TAG_COMPLETED: "a2"})] == ["2"]
    assert store.registry().find(MODEL, {contract.TAG_COMPLETED: "a1"}) == []


def test_race_to_the_marker_is_settled_by_the_lower_version(
    store: MlflowHook, monkeypatch: pytest.MonkeyPatch
) -> None:
    """K7: both looked before either marked: the higher version withdraws its marker."""
    first, second = attempt(store, "a1"), attempt(store, "a2")
    client = store.client()
    mark = client.set_model_version_tag

    def mark_both(model: str, version: str, key: str, value: str) -> None:
        mark(model, first.version, key, first.attempt)
        mark(model, version, key, value)

    monkeypatch.setattr(client, "set_model_version_tag", mark_both)
    assert complete(client, MODEL, second, KEY) == first
    assert store.registry().find(MODEL, {contract.TAG_COMPLETED: "a2"}) == []
    assert find_completed(client, MODEL, KEY) == first


def test_duplicate_of_a_lost_reply_does_not_count(store: MlflowHook) -> None:
    """M1: the reply to a create was lost and the client sent it again: two versions, one of them complete."""
    own = attempt(store, "a1")
    duplicate = register(store, MODEL, {contract.TAG_REGISTRATION_KEY: KEY}, own.run_id)
    assert duplicate != own.version
    assert complete(store.client(), MODEL, own, KEY) == own
    marked = store.registry().find(MODEL, {contract.TAG_COMPLETED: "a1"})
    assert [version.version for version in marked] == [own.version]
