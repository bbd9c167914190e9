"""The release operator at Airflow's edge; what it calls is tested in ``tests/unit/release``."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_ragops.contract import ServingTarget
from airflow_provider_ragops.exceptions import LockHeldError, ReleaseRefusedError
from airflow_provider_ragops.operators.release import ModelReleaseOperator
from airflow_provider_ragops.operators.translation import translated_errors

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


def test_permanent_errors_are_not_retried_and_others_are() -> None:
    """A refusal ends the task for good; a busy lock may be free at the next try."""
    details = {"expected": "x", "seen": "y", "action": "z"}
    with pytest.raises(AirflowFailException, match="saw y"), translated_errors():
        raise ReleaseRefusedError("release", **details)
    with pytest.raises(LockHeldError), translated_errors():
        raise LockHeldError("lock", **details)
