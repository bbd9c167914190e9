"""How a training set is kept in MLflow; how it is built is tested in ``tests/unit/features`` and with a real Feast."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any
from unittest import mock

import pandas as pd
import pytest

from airflow_provider_ragops.contract import TAG_PARTITION
from airflow_provider_ragops.exceptions import UnreachableError
from airflow_provider_ragops.features.leakage import LeakageVerdict
from airflow_provider_ragops.features.training_set import TrainingSet
from airflow_provider_ragops.hooks.mlflow import MlflowHook
from airflow_provider_ragops.operators import training_set
from airflow_provider_ragops.operators.training_set import TrainingSetBuildOperator
from tests.unit.operators.pods import link_of

MODULE = "airflow_provider_ragops.operators.training_set"


@pytest.fixture(autouse=True)
def _built(mlflow_store: MlflowHook, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same training set of two customers, whatever is asked for."""
    frame = pd.DataFrame({"user_id": [1, 2], "churned": [0, 1], "split": ["train", "held_out"]})
    cutoff = datetime(2026, 8, 31, tzinfo=timezone.utc)
    monkeypatch.setattr(f"{MODULE}.build", lambda *_, **__: TrainingSet(frame, cutoff, 0, LeakageVerdict(2, 0, 2, 0)))
    monkeypatch.setattr(f"{MODULE}.FeastHook", mock.MagicMock())
    monkeypatch.setattr(MlflowHook, "run_url", lambda _, run: f"page of {run.info.run_id}")


def create_operator(partition: str = "2026-11-29") -> TrainingSetBuildOperator:
    return TrainingSetBuildOperator(
        task_id="training_set", model="Churn", feature_view="v", location="/data", partition=partition,
        experiment="churn",
    )


def executed(operator: TrainingSetBuildOperator) -> dict[str, Any]:
    return dict(operator.execute({}))  # type: ignore[typeddict-item]


def test_range_of_one_day_is_the_day(mlflow_store: MlflowHook) -> None:
    """Both texts of a partition find the one run, which carries the canonical key."""
    first = executed(create_operator())
    assert executed(create_operator("2026-11-29_2026-11-29")) == first
    assert mlflow_store.run(first["run_id"]).data.tags[TAG_PARTITION] == "2026-11-29"


def test_task_links_to_its_run() -> None:
    """The button opens the run that holds the training set, made now or found again."""
    for _ in range(2):
        operator = create_operator()
        result = executed(operator)
        assert link_of(operator) == f"page of {result['run_id']}"


def test_failed_upload_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """An artifact store that fails: file, run and connection are named, the task may be retried, its run is linked."""
    import requests

    answer = requests.Response()
    answer.status_code = 502
    monkeypatch.setattr(
        "mlflow.MlflowClient.log_artifact", mock.Mock(side_effect=requests.HTTPError("canary", response=answer))
    )
    operator = create_operator()
    expected = rf"artifact 'training_set/{training_set._FILE}' of run .*\(connection 'mlflow_default'\).*saw HTTP 502"
    with pytest.raises(UnreachableError, match=expected) as failure:
        executed(operator)
    assert "canary" not in str(failure.value)
    assert link_of(operator).startswith("page of ")
