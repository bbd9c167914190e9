"""Daily snapshots: right, reproducible to the byte, and only computed anew where the input changed."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import fsspec
import pandas as pd
import pytest
from churn import cdnow
from pyarrow import parquet

from airflow_provider_ragops.contract import Partition
from airflow_provider_ragops.exceptions import DataError
from airflow_provider_ragops.features.snapshots import FEATURES, write_snapshots

At = Callable[[Path], tuple[Any, str]]
ONE_DAY = pd.Timedelta(days=1)


def read_all(location: Path) -> pd.DataFrame:
    parts = [parquet.ParquetFile(path).read().to_pandas() for path in sorted(location.glob("*/*.parquet"))]
    return pd.concat(parts, ignore_index=True)


def oracle(lines: pd.DataFrame, end: pd.Timestamp) -> dict[int, dict[str, float]]:
    """The same features, customer by customer, in plain Python."""
    found = {}
    for user, mine in lines[lines["event_timestamp"] < end].groupby("user_id"):
        times = mine["event_timestamp"]
        back = {days: mine[times >= end - days * ONE_DAY] for days in (7, 30, 90, 180)}
        active = times.dt.floor("D").nunique()
        tenure = (end - times.min()) / ONE_DAY
        gap = (times.max() - times.min()) / ONE_DAY / (active - 1) if active > 1 else tenure
        found[int(user)] = {
            "avg_transaction_amount_7d": back[7]["amount"].mean() if len(back[7]) else 0.0,
            "transaction_count_30d": len(back[30]), "transaction_count_90d": len(back[90]),
            "transaction_count_180d": len(back[180]), "transaction_amount_90d": back[90]["amount"].sum(),
            "days_since_last_transaction": (end - times.max()) / ONE_DAY, "tenure_days": tenure,
            "transaction_count_total": len(mine), "active_days_total": active,
            "avg_transaction_amount_total": mine["amount"].mean(), "avg_items_total": mine["items"].mean(),
            "mean_days_between_transactions": gap,
        }
    return found


def read_snapshot(location: Path, day: date) -> pd.DataFrame:
    return parquet.ParquetFile(location / f"date={day}" / "features.parquet").read().to_pandas()


def bytes_of(location: Path) -> dict[str, bytes]:
    return {path.parent.name: path.read_bytes() for path in location.glob("*/*")}


def test_equal_to_the_oracle(written: Path, tmp_path: Path, at: At, last: Partition) -> None:
    """All customers and features of a sample of days equal a brute-force search; only past purchases count."""
    write_snapshots(at(written), at(tmp_path), last, history_days=95)
    lines = read_all(written)
    for back in (0, 1, 29, 60, 94):
        end = pd.Timestamp(last.end) - back * ONE_DAY
        found = read_snapshot(tmp_path, (end - ONE_DAY).date()).set_index("user_id")
        expected = pd.DataFrame.from_dict(oracle(lines, end), orient="index").astype(float)
        pd.testing.assert_frame_equal(found[list(FEATURES)], expected, check_names=False)
        assert (found["event_timestamp"] == end).all()
        assert (found["created_timestamp"] == end + pd.Timedelta(hours=2)).all()
        assert (found["known_at"] == (end + pd.Timedelta(hours=2)).timestamp()).all()


def test_same_bytes_every_time(written: Path, tmp_path: Path, at: At, last: Partition) -> None:
    """Two computations of one input give equal files, whatever the partition that asked for them."""
    write_snapshots(at(written), at(tmp_path / "a"), last, history_days=40)
    earlier = Partition(last.start - timedelta(days=3), last.end - timedelta(days=3))
    write_snapshots(at(written), at(tmp_path / "b"), earlier, history_days=40)
    first, second = bytes_of(tmp_path / "a"), bytes_of(tmp_path / "b")
    assert len(first.keys() & second.keys()) == 37
    assert all(first[day] == second[day] for day in first.keys() & second.keys())


def test_unchanged_days_are_skipped(source: Path, tmp_path: Path, at: At, last: Partition) -> None:
    """A rerun writes nothing; a correction is seen in its day and all later ones; another lag in all."""
    target = at(tmp_path / "features")
    assert len(write_snapshots(at(source), target, last, history_days=20).written) == 20
    again = write_snapshots(at(source), target, last, history_days=20)
    assert (again.written, again.unchanged, again.rows) == ((), 20, 0)
    corrected = last.start.date() - timedelta(days=4)
    row = {"line_id": "x", "user_id": 1, "items": 1, "amount": 5.0, "event_timestamp": last.start - timedelta(days=4)}
    cdnow.write_day(source, corrected, [row])
    written = write_snapshots(at(source), target, last, history_days=20).written
    assert written == tuple((corrected + timedelta(days=number)).isoformat() for number in range(5))
    assert len(write_snapshots(at(source), target, last, history_days=20, lag=timedelta(hours=3)).written) == 20


def test_killed_while_writing(
    written: Path, tmp_path: Path, at: At, last: Partition, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that ends in the middle of a file leaves no half file under its name; the next run completes it."""
    real, calls = fsspec.implementations.local.LocalFileSystem.mv, []

    def dying(self: Any, source: str, target: str, **options: Any) -> None:
        calls.append(target)
        if len(calls) == 3:
            raise KeyboardInterrupt
        real(self, source, target, **options)

    monkeypatch.setattr(fsspec.implementations.local.LocalFileSystem, "mv", dying)
    with pytest.raises(KeyboardInterrupt):
        write_snapshots(at(written), at(tmp_path), last, history_days=5)
    assert len(list(tmp_path.glob("*/features.parquet"))) == 2
    report = write_snapshots(at(written), at(tmp_path), last, history_days=5)
    assert (len(report.written), report.unchanged) == (3, 2)


def test_first_days_of_history(written: Path, tmp_path: Path, at: At, last: Partition) -> None:
    """Where history is shorter than asked for, snapshots begin with the first day of data."""
    report = write_snapshots(at(written), at(tmp_path), last, history_days=500)
    assert len(report.written) == 100
    assert report.gaps == ()


def test_gap_in_history(source: Path, tmp_path: Path, at: At, last: Partition) -> None:
    """A day without a folder is reported, and its snapshot rests on the days before."""
    missing = last.start.date() - timedelta(days=2)
    for path in (source / f"date={missing}").iterdir():
        path.unlink()
    (source / f"date={missing}").rmdir()
    report = write_snapshots(at(source), at(tmp_path), last, history_days=5)
    assert report.gaps == (missing.isoformat(),)
    assert missing.isoformat() in report.written


@pytest.mark.parametrize("back", [0, 7])
def test_unfinished_day(source: Path, tmp_path: Path, at: At, last: Partition, back: int) -> None:
    """A day that lacks its marker, the partition's or an earlier one, stops the computation."""
    day = last.start.date() - timedelta(days=back)
    (source / f"date={day}" / "_SUCCESS").unlink()
    with pytest.raises(DataError, match=f"none or only one of them in date={day}"):
        write_snapshots(at(source), at(tmp_path / "features"), last, history_days=5)
    assert not (tmp_path / "features").exists()


def test_missing_partition(written: Path, tmp_path: Path, at: At, last: Partition) -> None:
    """A partition without files is an error, not yesterday's features under a new date."""
    tomorrow = Partition(last.end, last.end + timedelta(days=1))
    with pytest.raises(DataError, match="none or only one of them in date=2026-09-09"):
        write_snapshots(at(written), at(tmp_path), tomorrow)


def test_broken_history(source: Path, tmp_path: Path, at: At, last: Partition) -> None:
    """A day that lost a column after it was validated is named."""
    cdnow.break_partition(source, last.start.date() - timedelta(days=3), "dropped-column")
    with pytest.raises(DataError, match=r"expected Parquet files with user_id.*date=2026-09-05"):
        write_snapshots(at(source), at(tmp_path / "features"), last, history_days=5)


def test_later_days_do_not_matter(source: Path, tmp_path: Path, at: At, last: Partition) -> None:
    """A backfill of an old partition reads nothing of what came later."""
    old = Partition(last.start - timedelta(days=30), last.end - timedelta(days=30))
    write_snapshots(at(source), at(tmp_path / "a"), old, history_days=3)
    for day in range(30):
        (source / f"date={old.end.date() + timedelta(days=day)}" / "part-0.parquet").write_bytes(b"broken")
    write_snapshots(at(source), at(tmp_path / "b"), old, history_days=3)
    assert bytes_of(tmp_path / "a") == bytes_of(tmp_path / "b")


def test_names() -> None:
    """Feast's join drops features whose names end in _y."""
    assert not any(name.endswith("_y") for name in FEATURES)
