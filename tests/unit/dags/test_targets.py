"""The named serving targets: one place, validated when it is read."""

from __future__ import annotations

import pytest
import targets
from targets import NamedTarget, added, distinct

from airflow_provider_ragops.contract import ServingTarget
from airflow_provider_ragops.exceptions import ConfigurationError
from tests.unit.dags.parsing import DAGS, parsed

STAGING = ServingTarget("ml-staging", "CustomerChurnPredictor", champion="staging", challenger="staging-waits")


def test_churn_is_the_dag_s_own_target() -> None:
    """The churn DAG, the form and the reconcile mean the same Deployment and Redis."""
    dags = parsed()
    churn = dags["churn/daily_churn_model_retraining"]["tasks"]["release"]["fields"]
    reconcile = dags["model_reconcile"]["tasks"]["reconcile_churn"]["fields"]
    assert churn["target"] == reconcile["target"]
    assert (churn["target"]["namespace"], churn["redis_conn_id"]) == ("elsewhere", "redis_serving")
    assert reconcile["redis_conn_id"] == "redis_serving"
    assert ServingTarget.of(dags["model_release"]["tasks"]["release"]["chosen"]["target"]["churn"]) == ServingTarget.of(
        churn["target"]
    )


def test_rag_is_the_dag_s_own_target() -> None:
    """The RAG DAG, the form and the reconcile mean one Deployment, which is not churn's, and its Redis."""
    dags = parsed()
    ours = dags["rag/rag_retriever_retraining"]["tasks"]["release"]["fields"]
    assert ours["target"] == dags["rag/rag_retriever_retraining"]["tasks"]["gate"]["fields"]["target"]
    assert ours["target"] == dags["model_reconcile"]["tasks"]["reconcile_rag"]["fields"]["target"]
    assert (ours["target"]["namespace"], ours["redis_conn_id"]) == ("ml-rag", "redis_rag")
    assert ours["target"]["deployment"] == ours["target"]["container"] == "mlflow-serve-rag"
    chosen = dags["model_release"]["tasks"]["release"]["chosen"]["target"]["rag"]
    assert ServingTarget.of(chosen) == ServingTarget.of(ours["target"])


def test_rag_is_looked_after_only_where_it_serves() -> None:
    """Without a tier, nothing would be reported every 15 minutes: the DAG is only triggered, the target unknown."""
    dags = parsed(rag="off")
    assert list(dags["model_reconcile"]["tasks"]) == ["reconcile_churn", "reconcile_staging"]
    assert dags["model_release"]["params"]["target"]["enum"] == ["churn", "staging"]
    assert dags["rag/rag_retriever_retraining"]["timetable"] == "NullTimetable"
    assert parsed()["rag/rag_retriever_retraining"]["timetable"] == "CronPartitionTimetable"


def test_targets_are_added_by_the_environment() -> None:
    """A staging tier needs no edit of a DAG; the fields are those of a ServingTarget, and its Redis."""
    text = '{"staging": {"namespace": "ml-staging", "model": "CustomerChurnPredictor", "champion": "staging", ' \
        '"challenger": "staging-waits", "redis_conn_id": "redis_staging"}}'
    assert added(text) == {"staging": NamedTarget(STAGING, "redis_staging")}
    assert added("") == {}


@pytest.mark.parametrize(("text", "told"), [
    ("nonsense", "RAGOPS_TARGETS: expected a JSON object of objects; saw 'nonsense'"),
    ('["a"]', "a JSON object of objects"), ('{"a": 1}', "a JSON object of objects"),
    ('{"a": {"namespace": "n"}}', "target 'a'.*model"),
    ('{"a": {"namespace": "n", "model": "m", "x": 1}}', "target 'a'.*'x'"),
    ('{"a": {"namespace": "N_", "model": "m"}}', "target 'a'.*DNS label"),
])  # fmt: skip
def test_impossible_targets_are_named(text: str, told: str) -> None:
    """A slip in the setting is an import error that says what and where."""
    with pytest.raises(ConfigurationError, match=told):
        added(text)


@pytest.mark.parametrize(("other", "told"), [
    (ServingTarget("ml-serving", "Other"), "ml-serving/mlflow-serve, which is 'churn''s"),
    (ServingTarget("ml-staging", "CustomerChurnPredictor"), "CustomerChurnPredictor@champion"),
    (ServingTarget("ml-staging", "CustomerChurnPredictor", champion="c", challenger="champion"), "@champion"),
])  # fmt: skip
def test_targets_share_nothing(other: ServingTarget, told: str) -> None:
    """Two names for one Deployment, or one alias for two tiers, would move each other's champion."""
    with pytest.raises(ConfigurationError, match=told):
        distinct({"churn": targets.CHURN, "other": NamedTarget(other)})
    assert distinct({"churn": targets.CHURN, "staging": NamedTarget(STAGING)})


def test_processor_does_not_run_the_module() -> None:
    """It is no DAG."""
    assert "targets.py" in (DAGS / ".airflowignore").read_text().splitlines()
