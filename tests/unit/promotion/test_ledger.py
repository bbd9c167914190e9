from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest

from airflow_provider_ragops.exceptions import ConfigurationError, RegistryError
from airflow_provider_ragops.hooks.mlflow import MlflowHook
from airflow_provider_ragops.promotion.ledger import LedgerEntry, MlflowLedger

TARGET = "ml-serving/mlflow-serve"
START = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
MINUTE = timedelta(minutes=1)


class Clock:
    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def ledger(mlflow_store: MlflowHook, clock: Clock) -> MlflowLedger:
    return mlflow_store.ledger(clock)


def _entry(number: int, target: str = TARGET) -> LedgerEntry:
    before = None if number == 1 else str(number - 1)
    return LedgerEntry(
        f"r{number}", target, "Churn", before, str(number), number, "airflow", "passed the gate", "runs:/x/gate",
        START + number * MINUTE,
    )  # fmt: skip


def _released(ledger: MlflowLedger, clock: Clock, number: int, outcome: str = "released") -> None:
    ledger.open(_entry(number))
    clock.now = START + number * MINUTE + MINUTE / 2
    ledger.close(f"r{number}", outcome, "verified")  # type: ignore[arg-type]


def test_an_entry_comes_back_whole(ledger: MlflowLedger, clock: Clock) -> None:
    """Every field that was written is read back, the first release's missing version included."""
    ledger.open(_entry(1))
    (found,) = ledger.open_entries(TARGET)
    assert found.run_id
    assert replace(found, run_id="") == _entry(1)

    clock.now = START + 5 * MINUTE
    ledger.close("r1", "released", "all pods answered")
    (found,) = ledger.history(TARGET)
    assert (found.outcome, found.outcome_reason, found.closed_at) == ("released", "all pods answered", clock.now)
    assert ledger.open_entries(TARGET) == []


def test_opening_and_closing_twice_changes_nothing(
    mlflow_store: MlflowHook, ledger: MlflowLedger, clock: Clock
) -> None:
    """M8: a retry of the task that died after the write repeats it: one entry, the first end time."""
    for _ in range(2):
        ledger.open(_entry(1))
    for minutes in (5, 9):
        clock.now = START + minutes * MINUTE
        ledger.close("r1", "undone", "bad answer")

    (found,) = ledger.history(TARGET)
    assert found.closed_at == START + 5 * MINUTE
    assert mlflow_store.run(found.run_id).info.status == "FAILED"


def test_a_duplicate_of_a_lost_reply_is_one_entry(mlflow_store: MlflowHook, ledger: MlflowLedger) -> None:
    """M1: MLflow's client sends a creation again after a lost reply; both runs are closed, one is shown."""
    ledger.open(_entry(1))
    run = mlflow_store.run(ledger.history(TARGET)[0].run_id)
    mlflow_store.client().create_run(run.info.experiment_id, run.info.start_time, run.data.tags)

    ledger.close("r1", "released", "verified")

    assert len(ledger.history(TARGET)) == 1
    assert ledger.open_entries(TARGET) == []


def test_an_outcome_is_not_rewritten(ledger: MlflowLedger, clock: Clock) -> None:
    """History stays: another outcome, an unknown one and an unknown release are errors that name the release."""
    _released(ledger, clock, 1)

    with pytest.raises(RegistryError, match=r"release 'r1'.*saw outcome 'released'"):
        ledger.close("r1", "undone", "")
    with pytest.raises(ConfigurationError, match="saw 'finished'"):
        ledger.close("r1", "finished", "")  # type: ignore[arg-type]
    with pytest.raises(RegistryError, match=r"release 'r9'.*saw none"):
        ledger.close("r9", "released", "")


def test_a_half_written_end_is_completed(mlflow_store: MlflowHook, ledger: MlflowLedger) -> None:
    """X1: killed between the outcome and the run's end, the entry is still open and the retry ends it."""
    ledger.open(_entry(1))
    run_id = ledger.history(TARGET)[0].run_id
    mlflow_store.client().set_tag(run_id, "ragops.release.outcome", "released")
    assert len(ledger.open_entries(TARGET)) == 1

    ledger.close("r1", "released", "verified")
    assert ledger.open_entries(TARGET) == []


def test_history_is_newest_first_and_per_target(
    ledger: MlflowLedger, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All pages of one target's releases, and none of another target's."""
    monkeypatch.setattr("airflow_provider_ragops.promotion.runs._PAGE", 2)
    for number in range(1, 6):
        _released(ledger, clock, number)
    ledger.open(_entry(7, target="staging/mlflow-serve"))

    assert [each.release_id for each in ledger.history(TARGET)] == ["r5", "r4", "r3", "r2", "r1"]
    assert ledger.history("nowhere/mlflow-serve") == []


def test_served_on_finds_the_last_release_that_lasted(ledger: MlflowLedger, clock: Clock) -> None:
    """What served at a time: the last release that ended as released by then; undone and open ones do not count."""
    _released(ledger, clock, 1)
    _released(ledger, clock, 2)
    _released(ledger, clock, 3, "undone")
    ledger.open(_entry(4))

    def served(minutes: float) -> str | None:
        found = ledger.served_on(TARGET, START + minutes * MINUTE)
        return found and found.to_version

    assert [served(minutes) for minutes in (1.4, 1.5, 2.4, 2.5, 60)] == [None, "1", "1", "2", "2"]
