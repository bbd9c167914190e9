from __future__ import annotations

from dataclasses import replace
from datetime import date, datetime, timedelta, timezone

import pytest

from airflow_provider_ragops.promotion.history import rows, served, served_on, served_rows, table
from airflow_provider_ragops.promotion.ledger import LedgerEntry
from airflow_provider_ragops.promotion.table import as_table

TARGET = "ml-serving/mlflow-serve"


def _time(text: str) -> datetime:
    return datetime.fromisoformat(f"2026-11-{text}:00+00:00")


def _entry(token: int, from_version: str | None, to: str, closed: str | None, outcome: str | None = "released",
           kind: str = "release") -> LedgerEntry:  # fmt: skip
    closed_at = _time(closed) if closed else None
    return LedgerEntry(
        f"r{token}", TARGET, "Churn", from_version, to, token, "airflow", f"reason {token}", f"runs:/{token}/report",
        (closed_at or _time("30T09:00")) - timedelta(minutes=5), outcome, closed_at, kind=kind, closed_token=token,
    )  # fmt: skip


# Newest first, as the ledger gives them.
ENTRIES = [
    _entry(6, "1", "4", None, None),
    _entry(5, "2", "1", "29T18:00", kind="rollback"),
    _entry(4, "2", "3", "29T12:00", "undone"),
    _entry(3, "1", "2", "29T02:10"),
    _entry(2, "1", "9", "28T12:00", "refused"),
    _entry(1, None, "1", "27T02:00"),
]


def _told(day: str) -> list[tuple[str, str, str | None, int]]:
    return [
        (each.version, f"{each.since:%dT%H:%M}", each.until and f"{each.until:%dT%H:%M}", each.entry.token)
        for each in served_on(ENTRIES, date.fromisoformat(day))
    ]


def test_a_version_serves_from_its_close_to_the_next() -> None:
    """Undone, refused and open entries change nothing; a rollback brings the old version back."""
    assert [(each.version, each.entry.token) for each in served(ENTRIES)] == [("1", 1), ("2", 3), ("1", 5)]


@pytest.mark.parametrize(
    ("day", "told"),
    [
        ("2026-11-26", []),
        ("2026-11-27", [("1", "27T02:00", "29T02:10", 1)]),
        ("2026-11-28", [("1", "27T02:00", "29T02:10", 1)]),
        (
            "2026-11-29",
            [("1", "27T02:00", "29T02:10", 1), ("2", "29T02:10", "29T18:00", 3), ("1", "29T18:00", None, 5)],
        ),
        ("2026-11-30", [("1", "29T18:00", None, 5)]),
    ],
)  # fmt: skip
def test_a_day_is_the_whole_utc_day(day: str, told: list[tuple[str, str, str | None, int]]) -> None:
    """Every version that served in the day, with its times and the entry that says why."""
    assert _told(day) == told


def test_the_ends_of_a_day_are_exact() -> None:
    """What ended at midnight did not serve that day; what began at the next midnight did not either."""
    entries = [_entry(2, "1", "2", "30T00:00"), _entry(1, None, "1", "29T00:00")]

    assert [each.version for each in served_on(entries, date(2026, 11, 29))] == ["1"]
    assert [each.version for each in served_on(entries, date(2026, 11, 30))] == ["2"]
    assert served_on(entries, date(2026, 11, 28)) == []


def test_other_zones_are_the_same_instant() -> None:
    """Times given in another zone are compared and shown as UTC."""
    tokyo = timezone(timedelta(hours=9))
    entries = [replace(_entry(1, None, "1", "29T00:00"), closed_at=datetime(2026, 11, 30, 8, 30, tzinfo=tokyo))]

    assert [each.version for each in served_on(entries, date(2026, 11, 29))] == ["1"]
    assert served_rows(served(entries))[0]["since (UTC)"] == "2026-11-29 23:30:00"


def test_a_rollback_to_nothing_ends_the_serving() -> None:
    """After a rollback to no version nothing serves, until the next release."""
    entries = [_entry(3, None, "2", "30T00:00"), _entry(2, "1", "", "29T12:00", kind="rollback"),
               _entry(1, None, "1", "29T06:00")]  # fmt: skip

    assert [(each.version, each.until and each.until.hour) for each in served(entries)] == [("1", 12), ("2", None)]


def test_entries_that_close_together_are_ordered_by_token() -> None:
    """Two ends in one millisecond: the later holder's version serves on, the earlier's never did."""
    entries = [_entry(1, None, "1", "29T06:00"), _entry(2, "1", "2", "29T06:00")]

    assert [each.version for each in served(entries)] == ["2"]
    assert [each.version for each in served(entries[::-1])] == ["2"]


def test_a_row_says_what_a_person_asks() -> None:
    """Times in UTC, both versions, outcome, token, actor, reason, evidence; open and first entries say so."""
    newest, *_, first = rows(ENTRIES)

    assert (newest["outcome"], newest["closed (UTC)"]) == ("open", "")
    assert first == {
        "opened (UTC)": "2026-11-27 01:55:00", "closed (UTC)": "2026-11-27 02:00:00", "kind": "release",
        "from": "none", "to": "1", "outcome": "released", "token": "1", "by": "airflow", "why": "reason 1",
        "how it ended": "", "evidence": "runs:/1/report",
    }  # fmt: skip


def test_a_takeover_and_an_approval_show() -> None:
    """Who closed another's release is seen in the token; who approved stands before a report that said "reject"."""
    entry = replace(_entry(3, "1", "2", "29T02:10"), closed_token=4, gate_report="", approval="ann: urgent")
    (found,) = rows([entry])

    assert (found["token"], found["evidence"]) == ("3, closed by 4", "approved: ann: urgent")
    assert rows([replace(entry, approval="")])[0]["evidence"] == "none"
    assert rows([replace(entry, gate_report="runs:/3/r")])[0]["evidence"] == "approved: ann: urgent; runs:/3/r"


def test_the_table_has_a_line_per_release() -> None:
    """A heading and aligned columns; text of several lines stays on its line; no entries, no table."""
    lines = table([replace(ENTRIES[0], reason="one\ntwo  three"), *ENTRIES[1:]]).splitlines()

    assert len(lines) == 1 + len(ENTRIES)
    assert lines[0].startswith("opened (UTC)")
    assert "one two three" in lines[1]
    assert len({line.index(word) for line, word in zip(lines, ["kind", "release", "rollback"], strict=False)}) == 1
    assert table([]) == as_table([]) == ""


def test_long_text_is_cut_but_for_the_last_column() -> None:
    """A long reason does not push the evidence out of sight, and the evidence can be looked up."""
    _, line = table([replace(ENTRIES[0], reason="x" * 99, gate_report="runs:/" + "r" * 99)]).splitlines()

    assert f" {'x' * 59}… " in line
    assert line.endswith("  runs:/" + "r" * 99)
