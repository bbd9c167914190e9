from __future__ import annotations

import asyncio
import logging
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import DAG

from airflow_provider_ragops.notifications.alert import AlertNotifier


@pytest.fixture(autouse=True)
def _visible_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """Airflow's own logger bypasses caplog."""
    monkeypatch.setattr(AlertNotifier, "log", logging.getLogger("alert"))


def _told(notifier: AlertNotifier, caplog: pytest.LogCaptureFixture, **context: Any) -> str:
    notifier({"dag": DAG("churn", schedule=None), "run_id": "r1", **context})
    return caplog.text


def test_a_failed_task_is_told(caplog: pytest.LogCaptureFixture) -> None:
    """As failure callback there is no verdict: task, run and exception are told."""
    told = _told(AlertNotifier(), caplog, ti=SimpleNamespace(task_id="train"), exception=OSError("no GPU"))

    assert "churn.train failed in run r1: no GPU" in told


def test_a_failed_run_is_told(caplog: pytest.LogCaptureFixture) -> None:
    """As failure callback of a DAG there may be neither task nor exception."""
    assert "churn failed in run r1\n" in _told(AlertNotifier(), caplog)


def test_a_message_of_ones_own(caplog: pytest.LogCaptureFixture) -> None:
    """The message is a template of the caller's."""
    assert "see Churn" in _told(AlertNotifier(message="see {{ verdict.model }}"), caplog, verdict={"model": "Churn"})


def test_the_triggerer_can_tell_too(caplog: pytest.LogCaptureFixture) -> None:
    """Deadline alerts run notifiers asynchronously."""
    asyncio.run(AlertNotifier(message="late").async_notify({}))  # type: ignore[typeddict-item]

    assert "late" in caplog.text
