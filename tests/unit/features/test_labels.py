"""Labels of the past and the times of observation."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from churn import cdnow
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from airflow_provider_ragops.contract import Partition
from airflow_provider_ragops.exceptions import ConfigurationError, DataError
from airflow_provider_ragops.features.labels import Observations, label

At = Callable[[Path], tuple[Any, str]]
SHORT = Observations(horizon=timedelta(days=30), window=timedelta(days=14))


def read_all(location: Path) -> pd.DataFrame:
    parts = [parquet.ParquetFile(path).read().to_pandas() for path in sorted(location.glob("*/*.parquet"))]
    return pd.concat(parts, ignore_index=True)


@given(st.integers(0, 60), st.integers(1, 30), st.integers(1, 120))
def test_observation_times_leave_room_for_the_label(window: int, step: int, horizon: int) -> None:
    """All times lie in [end - horizon - window, end - horizon]; the last one uses it to the full."""
    partition = Partition.parse("2026-11-29")
    observations = Observations(timedelta(days=horizon), timedelta(days=window), timedelta(days=step))
    times = observations.times(partition)
    assert times == sorted(set(times))
    assert times[-1] == partition.end - timedelta(days=horizon)
    assert times[0] >= partition.end - timedelta(days=horizon + window)
    assert len(times) == window // step + 1


@pytest.mark.parametrize("values", [{"step": timedelta(0)}, {"horizon": timedelta(0)}, {"window": timedelta(days=-1)}])
def test_impossible_observations(values: dict[str, timedelta]) -> None:
    """A step of nothing would observe for ever: refused with the values."""
    with pytest.raises(ConfigurationError, match="step and horizon above zero"):
        Observations(**values).times(Partition.parse("2026-11-29"))


def test_labels_equal_a_search_by_hand(written: Path, at: At, last: Partition) -> None:
    """Churned means: no purchase in [time, time + horizon). Observed are those whose snapshot was known by then."""
    frame = label(at(written), last, SHORT)
    lines, lag, day = read_all(written), pd.Timedelta(hours=2), pd.Timedelta(days=1)
    found = {(row.user_id, row.event_timestamp): row.churned for row in frame.itertuples()}
    expected = {}
    for time in map(pd.Timestamp, SHORT.times(last)):
        for user, mine in lines.groupby("user_id"):
            first_snapshot = mine["event_timestamp"].min().floor("D") + day
            if first_snapshot + lag <= time:
                later = mine[(mine["event_timestamp"] >= time) & (mine["event_timestamp"] < time + SHORT.horizon)]
                expected[(user, time)] = int(later.empty)
    assert found == expected
    assert {0, 1} == set(found.values())
    assert str(frame["event_timestamp"].dtype) == "datetime64[us, UTC]"


def test_label_ends_before_the_horizon_does(source: Path, at: At, last: Partition) -> None:
    """A purchase at the very end of the horizon belongs to the next one."""
    frame = label(at(source), last, SHORT)
    time = frame["event_timestamp"].max()  # its horizon ends with the partition
    user = int(frame[(frame["event_timestamp"] == time) & (frame["churned"] == 1)]["user_id"].iloc[0])
    row = {"line_id": "x", "user_id": user, "items": 1, "amount": 1.0}
    end = (time + SHORT.horizon).to_pydatetime()
    cdnow.write_day(source, end.date(), [{**row, "event_timestamp": end}])
    wider = Partition(last.start, last.end + timedelta(days=1))
    assert label(at(source), wider, Observations(SHORT.horizon, timedelta(days=14), timedelta(days=1))).query(
        "user_id == @user and event_timestamp == @time")["churned"].tolist() == [1]


def test_too_little_history(written: Path, at: At) -> None:
    """An early partition has nobody to observe: the error says that labels need a whole horizon."""
    told = "training set of partition 2026-06-20: expected entities with an event before"
    with pytest.raises(DataError, match=told):
        label(at(written), Partition.parse("2026-06-20"), SHORT)


def test_history_in_another_storage(written: Path, at: At, last: Partition, memory: Any) -> None:
    """Labels from a storage that is read through fsspec are those from local files."""
    memory.put(f"{written}/", "/transactions", recursive=True)
    pd.testing.assert_frame_equal(label((memory, "/transactions"), last, SHORT), label(at(written), last, SHORT))
