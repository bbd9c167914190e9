"""What the contract check leaves in MLflow; the check itself is tested in ``tests/unit/validation``."""

from __future__ import annotations

import pytest
from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_ragops.hooks.mlflow import MlflowHook
from airflow_provider_ragops.operators.validation import ContractValidateOperator
from airflow_provider_ragops.validation.report import CheckFailure, ContractReport
from tests.unit.operators.pods import link_of

BROKEN = (CheckFailure("amount", "not negative", 1, ("-1",)),)


def test_task_links_to_its_report(mlflow_store: MlflowHook, monkeypatch: pytest.MonkeyPatch) -> None:
    """The button opens the run with the report, of a kept contract and of a broken one, made now or found again."""
    monkeypatch.setattr(MlflowHook, "run_url", lambda _, run: f"page of {run.info.run_id}")
    links = []
    for failures in ((), BROKEN):
        report = ContractReport("churn", "2026-11-29", 3, failures)
        monkeypatch.setattr(ContractValidateOperator, "_check", lambda _, report=report: report)
        operator = ContractValidateOperator(
            task_id="validate", schema="churn", location="/data", partition="2026-11-29", experiment="churn"
        )
        if failures:
            with pytest.raises(AirflowFailException, match="amount: not negative failed"):
                operator.execute({})  # type: ignore[typeddict-item]
        else:
            operator.execute({})  # type: ignore[typeddict-item]
        links.append(link_of(operator))
    run = mlflow_store.find_run("churn", {"ragops.kind": "contract"})
    assert run
    assert links == [f"page of {run.info.run_id}"] * 2
