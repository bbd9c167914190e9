"""What a retriever's operators add to those of any model."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_ragops.exceptions import ConfigurationError
from airflow_provider_ragops.operators.retriever import (
    RetrieverEvaluationPodOperator,
    RetrieverGateOperator,
    RetrieverTrainingPodOperator,
)
from airflow_provider_ragops.operators.training import GpuTrainingPodOperator
from airflow_provider_ragops.promotion.rules import RetrievalRules

POD: dict[str, Any] = {
    "image": "t:1", "model": "rag-retriever", "data_uri": "runs:/r/t", "data_digest": "d1", "partition": "2026-11-29",
}  # fmt: skip
FIT: dict[str, Any] = {**POD, "task_id": "train", "experiment": "rag", "cutoff": "2026-11-29T00:00:00+00:00"}


def training(**changes: Any) -> RetrieverTrainingPodOperator:
    return RetrieverTrainingPodOperator(**{**FIT, "dimension": "512", **changes})


def gate(**changes: Any) -> RetrieverGateOperator:
    return RetrieverGateOperator(
        task_id="gate", model="rag-retriever", candidate="2", champion="1", evaluation_run_id="r",
        follow_promote="release", follow_reject="alert", **changes,
    )  # fmt: skip


def test_each_dimension_is_work_of_its_own() -> None:
    """M2: the registration key tells dimensions apart, and a retriever from a classifier with the same parameters."""
    keys = {training(dimension=each).registration_key for each in (256, "384", 512, "768")}
    assert len(keys | {GpuTrainingPodOperator(**FIT).registration_key}) == 5
    assert training(dimension=512).registration_key == training(dimension="512").registration_key


def test_dimension_is_templated_and_passed_on() -> None:
    """The form's choice reaches the pod; another number is refused before a pod exists."""
    assert "dimension" in RetrieverTrainingPodOperator.template_fields
    line = training().command_line
    assert line[line.index("--dimension") + 1] == "512"
    with pytest.raises(ConfigurationError, match="dimension: expected one of 256, 384, 512, 768; saw '100'"):
        _ = training(dimension="100").registration_key


def test_pods_run_the_retriever_s_workloads() -> None:
    """Both modules can be run with ``python -m``."""
    import importlib.util

    evaluation = RetrieverEvaluationPodOperator(**POD, task_id="evaluate", candidate="2")
    for operator in (training(), evaluation):
        assert operator.workload.startswith("airflow_provider_ragops.workloads.rag.")
        assert importlib.util.find_spec(f"{operator.workload}.__main__")


def test_rules_come_from_the_form() -> None:
    """Text from templates becomes the rules; what is not given has the retriever's defaults."""
    assert gate().rules() == RetrievalRules()
    given = gate(min_mrr="0.7", min_recall_at_5="0.8", non_inferiority_margin="0.1", min_rows="50", samples="100")
    assert given.rules() == RetrievalRules(
        min_mrr=0.7, min_recall_at_5=0.8, non_inferiority_margin=0.1, min_rows=50, samples=100
    )
    assert {"min_mrr", "min_recall_at_5", "non_inferiority_margin"} <= set(RetrieverGateOperator.template_fields)


@pytest.mark.parametrize(("field", "value"), [("min_mrr", "high"), ("min_recall_at_5", "2"), ("min_mrr", "nan")])
def test_impossible_rules_are_refused(field: str, value: str) -> None:
    """A threshold that is no number from 0 to 1 is named, before anything is judged."""
    with pytest.raises(ConfigurationError, match=field):
        gate(**{field: value}).rules()
