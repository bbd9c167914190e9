"""A retriever from pairs to an answer, against a real MLflow server: training, registration, gate, load over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pandas as pd
import pytest
from rag import partitions, policies

from airflow_provider_ragops import contract
from airflow_provider_ragops.exceptions import EmbeddingDimensionError
from airflow_provider_ragops.hooks.mlflow import MlflowHook
from airflow_provider_ragops.operators.pair_set import PairSetBuildOperator
from airflow_provider_ragops.operators.retriever import RetrieverGateOperator
from airflow_provider_ragops.workloads.environment import WorkloadEnvironment
from airflow_provider_ragops.workloads.evaluation.arguments import EvaluationArguments
from airflow_provider_ragops.workloads.evaluation.pinned import loaded, pin
from airflow_provider_ragops.workloads.evaluation.procedure import evaluate
from airflow_provider_ragops.workloads.evaluation.slices import parse
from airflow_provider_ragops.workloads.rag.evaluation.measurement import Retrieval
from airflow_provider_ragops.workloads.rag.training.parameters import RetrieverParameters
from airflow_provider_ragops.workloads.rag.training.procedure import make
from airflow_provider_ragops.workloads.training.arguments import TrainingArguments
from airflow_provider_ragops.workloads.training.procedure import train
from tests.server import Server
from tests.stores import connect
from tests.unit.workloads.rag.retrievers import DAY

MODEL = "rag-retriever"
# MLflow about type hints of its own base class.
pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings("ignore:.*type hint:UserWarning"),
    pytest.mark.filterwarnings("ignore:.*Add type hints:UserWarning"),
]


@pytest.fixture
def hook(mlflow_server: Server) -> Iterator[MlflowHook]:
    import mlflow

    yield connect(mlflow_server.uri)
    mlflow.set_tracking_uri(None)


def gate_of(candidate: str, champion: str | None, run_id: str, **rules: object) -> RetrieverGateOperator:
    return RetrieverGateOperator(
        task_id="gate", model=MODEL, candidate=candidate, champion=champion, evaluation_run_id=run_id,
        follow_promote="release", follow_reject="alert", min_slice_rows="20", **rules,
    )


def test_from_pairs_to_an_answer(hook: MlflowHook, tmp_path: Path) -> None:
    """The DAG's steps, each with the one before's result: two dimensions, judged and loaded.

    The partition is kept once; a version of 768 dimensions is judged against one of 512 on the same questions; the
    gate promotes, rejects below a threshold, and has not enough data for its default; both load side by side, and
    neither takes the other's vectors.
    """
    partitions.write_day(tmp_path, DAY, policies.pairs())
    kept = PairSetBuildOperator(
        task_id="training_set", model=MODEL, location=str(tmp_path), partition=DAY.isoformat(), experiment="rag"
    )
    data = kept.execute({})
    assert kept.execute({}) == data
    assert (data["rows"], data["cutoff"]) == (126, "2026-11-29T00:00:00+00:00")

    environment = WorkloadEnvironment(hook.tracking_uri, "attempt-1", "training:1")
    champion, candidate = (
        train(
            TrainingArguments(
                MODEL, "rag", data["uri"], data["digest"], DAY.isoformat(), data["cutoff"],
                RetrieverParameters(epochs=3, batch_size=32, learning_rate=3e-4, seed=7, dimension=dimension),
            ),
            environment, make=make,
        ).version
        for dimension in (512, 768)
    )  # fmt: skip
    run_id = evaluate(
        EvaluationArguments(MODEL, candidate, champion, data["uri"], data["digest"], DAY.isoformat(), parse("source")),
        environment, measurement=Retrieval(),
    )  # fmt: skip

    told = mock.MagicMock()
    context = {"ti": told, "dag_run": mock.MagicMock(run_type="manual")}
    followed = {
        name: gate_of(candidate, champion, run_id, **rules).choose_branch(context)  # type: ignore[arg-type]
        for name, rules in {
            "low": {"min_rows": 20, "min_mrr": 0.99}, "few": {},
            "good": {"min_rows": 20, "non_inferiority_margin": 0.1},
        }.items()
    }  # fmt: skip
    assert followed == {"low": "alert", "few": "alert", "good": "release"}
    verdicts = [call.kwargs["value"]["verdict"] for call in told.xcom_push.call_args_list]
    assert verdicts == ["reject", "not-enough-data", "promote"]
    assert hook.registry().alias(MODEL, contract.ALIAS_CHALLENGER) == candidate

    client = hook.client()
    question = "What is the policy for overseas transfers and how long does a refund take?"
    with loaded(pin(client, MODEL, champion)) as old, loaded(pin(client, MODEL, candidate)) as new:
        retrievers = [model.unwrap_python_model().retriever for model in (old, new)]
        assert [each.dimension for each in retrievers] == [512, 768]
        answers = [model.predict(pd.DataFrame({"query": [question]}))["answer"][0] for model in (old, new)]
        assert all("within two to three business days" in answer for answer in answers)
        with pytest.raises(EmbeddingDimensionError, match="dimension 768; saw 512"):
            retrievers[1].search(retrievers[0].embed(["refunds"]))
