from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest

from airflow_provider_ragops.exceptions import ConfigurationError, RegistryError
from airflow_provider_ragops.hooks.mlflow import MlflowHook
from airflow_provider_ragops.promotion.ledger import LedgerEntry, overtaken
from airflow_provider_ragops.promotion.mlflow_ledger import MlflowLedger

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
    ledger.close("r1", "released", "all pods answered", 1)
    (found,) = ledger.history(TARGET)
    assert (found.outcome, found.outcome_reason, found.closed_at) == ("released", "all pods answered", clock.now)
    assert found.closed_token == 1
    assert ledger.open_entries(TARGET) == []


def test_a_rollback_comes_back_whole(ledger: MlflowLedger) -> None:
    """Kind, approval and an end at no version are kept; without a token at the close, none is claimed."""
    entry = replace(_entry(3), kind="rollback", to_version="", gate_report="", approval="ann: it lies about refunds")
    ledger.open(entry)
    ledger.close("r3", "released", "")

    (found,) = ledger.history(TARGET)
    assert (found.kind, found.to_version, found.approval, found.gate_report, found.closed_token) == (
        "rollback", "", "ann: it lies about refunds", "", None,
    )  # fmt: skip


def test_an_entry_of_an_older_release_is_read(mlflow_store: MlflowHook, ledger: MlflowLedger) -> None:
    """Entries that were written before kind, approval and closing token existed are releases without them."""
    ledger.open(_entry(1))
    run_id = ledger.history(TARGET)[0].run_id
    mlflow_store.client().delete_tag(run_id, "ragops.release.kind")

    (found,) = ledger.history(TARGET)
    assert (found.kind, found.approval, found.closed_token) == ("release", "", None)


def test_the_first_end_stays(ledger: MlflowLedger) -> None:
    """M8: a later holder that closes the entry again changes neither the end nor who closed it."""
    ledger.open(_entry(1))
    ledger.close("r1", "released", "verified", 1)
    ledger.close("r1", "released", "the record says done", 2)

    (found,) = ledger.history(TARGET)
    assert (found.closed_token, found.outcome_reason) == (1, "verified")


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
    run = mlflow_store.run(found.run_id)
    assert run.info.status == "FAILED"
    assert len(mlflow_store.client().search_runs([run.info.experiment_id])) == 1


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
    assert [entry.outcome for entry in ledger.history(TARGET)] == ["released"]


def test_a_half_written_end_is_completed(mlflow_store: MlflowHook, ledger: MlflowLedger) -> None:
    """X1: killed between the outcome and the run's end, the entry is still open and the retry ends it."""
    ledger.open(_entry(1))
    run_id = ledger.history(TARGET)[0].run_id
    mlflow_store.client().set_tag(run_id, "ragops.release.outcome", "released")
    assert len(ledger.open_entries(TARGET)) == 1

    ledger.close("r1", "released", "verified")
    assert ledger.open_entries(TARGET) == []


def test_a_half_written_end_is_not_open_for_ever(mlflow_store: MlflowHook, ledger: MlflowLedger) -> None:
    """X1: killed between the outcome and the run's end, and closed otherwise by the next: the first outcome stands."""
    ledger.open(_entry(1))
    run_id = ledger.history(TARGET)[0].run_id
    mlflow_store.client().set_tag(run_id, "ragops.release.outcome", "undone")

    with pytest.raises(RegistryError, match=r"release 'r1'.*saw outcome 'undone'"):
        ledger.close("r1", "aborted", "it ended before it touched the target", 2)

    (found,) = ledger.history(TARGET)
    assert (found.outcome, found.closed_token) == ("undone", None)
    assert ledger.open_entries(TARGET) == []
    assert mlflow_store.run(run_id).info.status == "FAILED"


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


def _ended(to: str, token: int, outcome: str | None, closed_token: int | None) -> LedgerEntry:
    return replace(_entry(1), to_version=to, token=token, outcome=outcome, closed_token=closed_token)


@pytest.mark.parametrize(
    ("entries", "late"),
    [
        ([_ended("5", 7, "released", 7)], False),
        ([_ended("5", 7, "released", 8)], True),
        ([_ended("5", 7, None, None)], False),
        ([_ended("5", 7, "undone", 7)], False),
        ([_ended("5", 7, "undone", 8)], True),
        ([_ended("5", 7, "aborted", 9)], False),
        ([_ended("5", 7, "released", None)], False),
        ([_ended("4", 7, "released", 8)], False),
        ([], False),
        ([_ended("5", 9, "released", 9), _ended("4", 8, "released", 8), _ended("5", 7, "released", 8)], False),
        ([_ended("5", 7, "released", 7), _ended("5", 9, "released", 10)], True),
    ],
    ids=[
        "closed by its opener", "taken over", "open", "undone by its opener", "undone by another",
        "aborted: no pod changed", "closer unknown", "another version", "nothing known",
        "taken over once, released again since", "newest by token, not by place",
    ],
)  # fmt: skip
def test_a_late_write_is_told_from_an_edit(entries: list[LedgerEntry], late: bool) -> None:
    """L1, M8: the alias names version 5 against the record: late only where a holder may still wake up and write."""
    assert overtaken(entries, "5") is late
