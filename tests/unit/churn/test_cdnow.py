"""The churn example's data: real purchases turned into partitions that keep the contract."""

from __future__ import annotations

import zipfile
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest
from churn import cdnow

LINES = """ customer_id  date number_of_cds  dollar_value
 00001 19980101  1   11.77
 00002 19980101  2   12.00
 00002 19980101  2   12.00
 00002 19980103  5    0.00
"""


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    path = tmp_path / "data.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(cdnow.MEMBER, LINES)
    return path


@pytest.mark.parametrize(("end", "last"), [
    (date(2026, 11, 28), date(2026, 11, 28)),  # a Saturday, like 1998-01-03
    (date(2026, 11, 29), date(2026, 11, 28)),
    (date(2026, 12, 4), date(2026, 11, 28)),
    (date(2026, 12, 5), date(2026, 12, 5)),
])
def test_data_end_on_their_own_weekday(wheel: Path, end: date, last: date) -> None:
    """Dates move by whole weeks: the last day is the newest of its weekday that is not after the end."""
    rows = list(cdnow.rows_of(cdnow.read_purchases(wheel), end))
    assert max(row["event_timestamp"] for row in rows).date() == last
    assert min(row["event_timestamp"] for row in rows).date() == last - timedelta(days=2)


def test_duplicates_stay_apart(wheel: Path) -> None:
    """True duplicate lines get different ids; the same source gives the same rows again."""
    rows = list(cdnow.rows_of(cdnow.read_purchases(wheel), date(2026, 11, 28)))
    assert len({row["line_id"] for row in rows}) == 4
    assert rows == list(cdnow.rows_of(cdnow.read_purchases(wheel), date(2026, 11, 28)))
    assert all(row["event_timestamp"].tzinfo is UTC for row in rows)


def test_a_later_end_keeps_ids_and_times_of_day(wheel: Path) -> None:
    """A week later the same lines have the same ids and times of day, seven days on."""
    first, second = (list(cdnow.rows_of(cdnow.read_purchases(wheel), date(2026, 11, day))) for day in (21, 28))
    for before, after in zip(first, second, strict=True):
        assert after == {**before, "event_timestamp": before["event_timestamp"] + timedelta(days=7)}


def test_partitions_are_whole(wheel: Path, tmp_path: Path) -> None:
    """Each day's folder holds its rows and the marker, and no temporary file."""
    days = cdnow.write_partitions(wheel, tmp_path / "tx", date(2026, 11, 28))
    assert days == [date(2026, 11, 26), date(2026, 11, 28)]
    found = sorted(path.relative_to(tmp_path / "tx").as_posix() for path in (tmp_path / "tx").rglob("*.*"))
    assert found == ["date=2026-11-26/part-0.parquet", "date=2026-11-28/part-0.parquet"]
    assert all((tmp_path / "tx" / f"date={day}" / "_SUCCESS").exists() for day in days)


def test_mending_restores_the_bytes(wheel: Path, tmp_path: Path) -> None:
    """Broken twice and mended, a partition is what it was."""
    day = cdnow.write_partitions(wheel, tmp_path, date(2026, 11, 28))[0]
    part = tmp_path / f"date={day}" / cdnow.PART
    before = part.read_bytes()
    cdnow.break_partition(tmp_path, day, "negative-amount")
    cdnow.break_partition(tmp_path, day, "dropped-column")
    assert part.read_bytes() != before
    cdnow.mend_partition(tmp_path, day)
    cdnow.mend_partition(tmp_path, day)
    assert part.read_bytes() == before
    assert sorted(path.name for path in part.parent.iterdir()) == ["_SUCCESS", cdnow.PART]


def test_real_purchases(cdnow_wheel: Path) -> None:
    """The real file: 69,659 lines of 23,570 customers on 546 days without a gap, 255 duplicates, 80 of zero dollars."""
    purchases = cdnow.read_purchases(cdnow_wheel)
    rows = list(cdnow.rows_of(purchases, date(2026, 11, 29)))
    assert len(rows) == len({row["line_id"] for row in rows}) == 69_659
    assert len({row["user_id"] for row in rows}) == 23_570
    assert len(purchases) - len(set(purchases)) == 255
    assert sum(row["amount"] == 0 for row in rows) == 80
    days = {row["event_timestamp"].date() for row in rows}
    assert len(days) == 546 == (max(days) - min(days)).days + 1
    assert max(days) == date(2026, 11, 24)  # a Tuesday, like 1998-06-30
    assert max(row["event_timestamp"] for row in rows) < datetime(2026, 11, 25, tzinfo=UTC)
