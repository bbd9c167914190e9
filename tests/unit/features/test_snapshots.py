"""Daily snapshots: right, reproducible to the byte, and only computed anew where the input changed."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from churn import cdnow
from pyarrow import parquet

from airflow_provider_ragops.contract import Partition
from airflow_provider_ragops.exceptions import DataError
from airflow_provider_ragops.features.query import FeatureQuery
from airflow_provider_ragops.features.snapshots import write_snapshots

At = Callable[[Path], tuple[Any, str]]


def bytes_of(location: Path) -> dict[str, bytes]:
    return {path.parent.name: path.read_bytes() for path in location.glob("*/*")}


def test_times_of_a_snapshot(written: Path, tmp_path: Path, at: At, last: Partition, query: FeatureQuery) -> None:
    """Each row carries the end of its day, and when it became knowable: the lag later."""
    write_snapshots(at(written), tmp_path, last, query, history_days=2, lag=timedelta(hours=3))
    for back in (0, 1):
        end = pd.Timestamp(last.end) - pd.Timedelta(days=back)
        file = tmp_path / f"date={(end - pd.Timedelta(days=1)).date()}" / "features.parquet"
        found = parquet.ParquetFile(file).read().to_pandas()
        assert set(found["event_timestamp"]) == {end}
        assert set(found["created_timestamp"]) == {end + pd.Timedelta(hours=3)}
        assert set(found["known_at"]) == {(end + pd.Timedelta(hours=3)).timestamp()}


def test_same_bytes_every_time(written: Path, tmp_path: Path, at: At, last: Partition, query: FeatureQuery) -> None:
    """Two computations of one input give equal files, whatever the partition that asked for them."""
    write_snapshots(at(written), tmp_path / "a", last, query, history_days=40)
    earlier = Partition(last.start - timedelta(days=3), last.end - timedelta(days=3))
    write_snapshots(at(written), tmp_path / "b", earlier, query, history_days=40)
    first, second = bytes_of(tmp_path / "a"), bytes_of(tmp_path / "b")
    assert len(first.keys() & second.keys()) == 37
    assert all(first[day] == second[day] for day in first.keys() & second.keys())


def test_unchanged_days_are_skipped(source: Path, tmp_path: Path, at: At, last: Partition, query: FeatureQuery) -> None:
    """A rerun writes nothing; a correction is seen in its day and all later ones; another lag or query in all."""
    target = tmp_path / "features"
    assert len(write_snapshots(at(source), target, last, query, history_days=20).written) == 20
    again = write_snapshots(at(source), target, last, query, history_days=20)
    assert (again.written, again.unchanged, again.rows) == ((), 20, 0)
    corrected = last.start.date() - timedelta(days=4)
    row = {"line_id": "x", "user_id": 1, "items": 1, "amount": 5.0, "event_timestamp": last.start - timedelta(days=4)}
    cdnow.write_day(source, corrected, [row])
    written = write_snapshots(at(source), target, last, query, history_days=20).written
    assert written == tuple((corrected + timedelta(days=number)).isoformat() for number in range(5))
    assert len(write_snapshots(at(source), target, last, query, history_days=20, lag=timedelta(hours=3)).written) == 20
    other = FeatureQuery("other", f"{query.text}\n-- another text may be another result")
    assert len(write_snapshots(at(source), target, last, other, history_days=20, lag=timedelta(hours=3)).written) == 20


def test_killed_while_writing(
    written: Path, tmp_path: Path, at: At, last: Partition, query: FeatureQuery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that ends in the middle of a file leaves no half file under its name; the next run completes it."""
    real, calls = Path.replace, []

    def dying(self: Path, target: Path) -> Path:
        calls.append(target)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return real(self, target)

    monkeypatch.setattr(Path, "replace", dying)
    with pytest.raises(KeyboardInterrupt):
        write_snapshots(at(written), tmp_path, last, query, history_days=5)
    assert len(list(tmp_path.glob("*/features.parquet"))) == 2
    report = write_snapshots(at(written), tmp_path, last, query, history_days=5)
    assert (len(report.written), report.unchanged) == (3, 2)


def test_first_days_of_history(written: Path, tmp_path: Path, at: At, last: Partition, query: FeatureQuery) -> None:
    """Where history is shorter than asked for, snapshots begin with the first day of data."""
    report = write_snapshots(at(written), tmp_path, last, query, history_days=500)
    assert len(report.written) == 100
    assert report.gaps == ()


def test_gap_in_history(source: Path, tmp_path: Path, at: At, last: Partition, query: FeatureQuery) -> None:
    """A day without a folder is reported, and its snapshot rests on the days before."""
    missing = last.start.date() - timedelta(days=2)
    for path in (source / f"date={missing}").iterdir():
        path.unlink()
    (source / f"date={missing}").rmdir()
    report = write_snapshots(at(source), tmp_path, last, query, history_days=5)
    assert report.gaps == (missing.isoformat(),)
    assert missing.isoformat() in report.written


@pytest.mark.parametrize("back", [0, 7])
def test_unfinished_day(source: Path, tmp_path: Path, at: At, last: Partition, query: FeatureQuery, back: int) -> None:
    """A day that lacks its marker, the partition's or an earlier one, stops the computation."""
    day = last.start.date() - timedelta(days=back)
    (source / f"date={day}" / "_SUCCESS").unlink()
    with pytest.raises(DataError, match=rf"date={day}: no _SUCCESS\."):
        write_snapshots(at(source), tmp_path / "features", last, query, history_days=5)
    assert not (tmp_path / "features").exists()


def test_missing_partition(written: Path, tmp_path: Path, at: At, last: Partition, query: FeatureQuery) -> None:
    """A partition without files is an error, not yesterday's features under a new date."""
    tomorrow = Partition(last.end, last.end + timedelta(days=1))
    with pytest.raises(DataError, match=r"date=2026-09-09: no \*\.parquet, no _SUCCESS"):
        write_snapshots(at(written), tmp_path, tomorrow, query)


def test_broken_history(source: Path, tmp_path: Path, at: At, last: Partition, query: FeatureQuery) -> None:
    """A day that lost a column after it was validated is named."""
    cdnow.break_partition(source, last.start.date() - timedelta(days=3), "dropped-column")
    with pytest.raises(DataError, match=r"expected Parquet files of equal columns.*date=2026-09-05"):
        write_snapshots(at(source), tmp_path / "features", last, query, history_days=5)


def test_later_days_do_not_matter(source: Path, tmp_path: Path, at: At, last: Partition, query: FeatureQuery) -> None:
    """A backfill of an old partition reads nothing of what came later."""
    old = Partition(last.start - timedelta(days=30), last.end - timedelta(days=30))
    write_snapshots(at(source), tmp_path / "a", old, query, history_days=3)
    for day in range(30):
        (source / f"date={old.end.date() + timedelta(days=day)}" / "part-0.parquet").write_bytes(b"broken")
    write_snapshots(at(source), tmp_path / "b", old, query, history_days=3)
    assert bytes_of(tmp_path / "a") == bytes_of(tmp_path / "b")


def test_history_in_another_storage(
    written: Path, tmp_path: Path, at: At, last: Partition, query: FeatureQuery, memory: Any
) -> None:
    """History that is read through fsspec gives the bytes that local files give."""
    memory.put(f"{written}/", "/transactions", recursive=True)
    write_snapshots((memory, "/transactions"), tmp_path / "a", last, query, history_days=3)
    write_snapshots(at(written), tmp_path / "b", last, query, history_days=3)
    assert bytes_of(tmp_path / "a") == bytes_of(tmp_path / "b")
    assert len(bytes_of(tmp_path / "a")) == 3
