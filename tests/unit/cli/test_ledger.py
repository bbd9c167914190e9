"""``airflow ragops``: the ledger on a terminal."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from pathlib import Path

import pytest

from airflow_provider_ragops.hooks.mlflow import MlflowHook
from airflow_provider_ragops.promotion.ledger import LedgerEntry

TARGET = "ml-serving/mlflow-serve"


@pytest.fixture
def store(mlflow_store: MlflowHook, monkeypatch: pytest.MonkeyPatch) -> MlflowHook:
    """One release of version 7, closed on 29 November."""
    monkeypatch.setenv("_AIRFLOW_PROCESS_CONTEXT", "client")  # the command sets it: put back after the test
    when = datetime(2026, 11, 29, 2, 10, tzinfo=timezone.utc)
    ledger = mlflow_store.ledger(lambda: when)
    ledger.open(LedgerEntry("r7", TARGET, "Churn", None, "7", 3, "airflow", "it passed", "runs:/x/report", when))
    ledger.close("r7", "released", "verified", 3)
    return mlflow_store


def _run(*command: str) -> None:
    """Parse and call as the command ``airflow`` does."""
    from airflow.cli.cli_parser import get_parser

    given = get_parser().parse_args(["ragops", *command])
    given.func(given)


def test_served_says_what_and_why(store: MlflowHook, capsys: pytest.CaptureFixture[str]) -> None:
    """One line per version that served in the day; as JSON for programs; nothing is said in words."""
    _run("served", "--target", TARGET, "--date", "2026-11-30")
    heading, line = capsys.readouterr().out.splitlines()
    assert heading.split()[:2] == ["version", "since"]
    assert " ".join(line.split()) == "7 2026-11-29 02:10:00 now release airflow it passed runs:/x/report"

    _run("served", "--target", TARGET, "--date", "2026-11-29", "--output", "json")
    (found,) = json.loads(capsys.readouterr().out)
    assert (found["version"], found["why"]) == ("7", "it passed")

    _run("served", "--target", TARGET, "--date", "2026-11-28")
    assert capsys.readouterr().out == f"Nothing served {TARGET} on 2026-11-28, as far as the ledger knows.\n"


def test_history_lists_releases(store: MlflowHook, capsys: pytest.CaptureFixture[str]) -> None:
    """All releases of the target; another target has none, which is said."""
    _run("history", "--target", TARGET)
    assert len(capsys.readouterr().out.splitlines()) == 2
    _run("history", "--target", "elsewhere/mlflow-serve")
    assert "knows no release of elsewhere/mlflow-serve" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("command", "told"),
    [
        (("served", "--target", TARGET, "--date", "29.11.2026"), "PartitionError: partition '29.11.2026'"),
        (("served", "--target", TARGET, "--date", "2026-11-01_2026-11-02"), "--date: expected one UTC day"),
        (("served", "--target", "churn", "--date", "2026-11-29"), "expected NAMESPACE/DEPLOYMENT.*saw 'churn'"),
        (("history", "--target", "ml-serving/"), "expected NAMESPACE/DEPLOYMENT"),
        (("history", "--target", TARGET, "--conn-id", "nowhere"), "conn_id `nowhere` isn't defined"),
    ],
)
def test_errors_are_one_line(store: MlflowHook, command: tuple[str, ...], told: str) -> None:
    """What went wrong is a line and exit code 1, no traceback."""
    with pytest.raises(SystemExit, match=told):
        _run(*command)


def test_connections_of_the_metadata_database_are_found(
    airflow_db: Path, store: MlflowHook, capsys: pytest.CaptureFixture[str]
) -> None:
    """A connection that was entered on Airflow's page serves the command as it serves a task."""
    from airflow.models.connection import Connection
    from airflow.utils.session import create_session

    with create_session() as session:
        extra = json.dumps({"tracking_uri": store.tracking_uri})
        session.add(Connection(conn_id="stored", conn_type="mlflow", extra=extra))

    _run("history", "--target", TARGET, "--conn-id", "stored", "--output", "json")
    assert [each["to"] for each in json.loads(capsys.readouterr().out)] == ["7"]
