from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import DAG, BaseNotifier
from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_ragops.exceptions import UnreachableError
from airflow_provider_ragops.notifications.alert import AlertNotifier
from airflow_provider_ragops.operators.alert import AlertOperator

VERDICT = {
    "model": "Churn", "verdict": "reject", "reasons": ["AUC of version 2 is 0.5012, below the threshold 0.7000."],
    "candidate": "2", "champion": "1", "report": "runs:/r/gate/report.json", "run_url": "http://mlflow/#/runs/r",
}  # fmt: skip


class Pager(BaseNotifier):
    """Keeps what it was told, or fails."""

    template_fields = ("text",)

    def __init__(self, text: str, error: Exception | None = None) -> None:
        super().__init__()
        self.text, self.error, self.told = text, error, []

    def notify(self, context: Any) -> None:
        if self.error:
            raise self.error
        self.told.append(self.text)


def _run(verdict: Any, **arguments: Any) -> None:
    """Execute as Airflow does, minus its database: a DAG for templates, an XCom from the gate."""
    with DAG("d", schedule=None) as dag:
        alert = AlertOperator(task_id="alert", **arguments)
    pull = {("gate", "verdict"): verdict}
    ti = SimpleNamespace(xcom_pull=lambda task_ids, key: pull.get((task_ids, key)), task_id="alert")
    alert.execute.__wrapped__(alert, {"ti": ti, "dag": dag, "run_id": "r"})


def test_default_goes_to_the_log(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without notifiers the task's log tells verdict, every reason, the champion that stays and both links."""
    monkeypatch.setattr(AlertNotifier, "log", logging.getLogger("alert"))  # Airflow's own bypasses caplog

    _run(VERDICT)

    for part in ("version 2 is not released", "says reject", "- AUC of version 2 is 0.5012", "champion stays 1",
                 "runs:/r/gate/report.json", "http://mlflow/#/runs/r"):  # fmt: skip
        assert part in caplog.text


def test_every_notifier_can_use_the_verdict() -> None:
    """Templates of a notifier see the verdict."""
    pager = Pager("{{ verdict.model }} {{ verdict.candidate }}: {{ verdict.reasons[0] }}")

    _run(VERDICT, notifiers=[pager])

    assert pager.told == [f"Churn 2: {VERDICT['reasons'][0]}"]


def test_a_failing_notifier_does_not_hide_the_others() -> None:
    """All notifiers are called; then the task fails, and names the one that failed."""
    last = Pager("told")

    with pytest.raises(UnreachableError, match=r"1 notifier.*OSError: no route"):
        _run(VERDICT, notifiers=[Pager("x", OSError("no route")), last])

    assert last.told == ["told"]


def test_a_missing_provider_names_its_extra() -> None:
    """A notifier by path whose Airflow provider is not installed says what to install; the others are called."""
    last = Pager("told")
    slack = {"path": "airflow.providers.slack.notifications.slack.SlackNotifier", "arguments": {"text": "x"}}

    with pytest.raises(AirflowFailException, match=r"airflow-provider-ragops\[slack\]"):
        _run(VERDICT, notifiers=[slack, last])

    assert last.told == ["told"]


def test_a_missing_verdict_is_an_error() -> None:
    """An alert without anything to tell names the gate that it looked for."""
    with pytest.raises(AirflowFailException, match=r"verdict of task 'gate'.*gate_task_id"):
        _run(None)
