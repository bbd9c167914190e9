"""The contract of a feature query: what it may read and must return, each breach named."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
from churn import cdnow
from churn.features import daily

from airflow_provider_ragops.contract import UTC, Partition
from airflow_provider_ragops.exceptions import ConfigurationError, DataError
from airflow_provider_ragops.features.history import open_history
from airflow_provider_ragops.features.query import FeatureQuery, snapshots

At = Callable[[Path], tuple[Any, str]]
COUNTS = "SELECT snapshot_us, user_id, count(*)::DOUBLE AS lines FROM history GROUP BY ALL"


@pytest.fixture
def connection(written: Path, at: At) -> Iterator[duckdb.DuckDBPyConnection]:
    with open_history(at(written)[0], sorted(map(str, written.glob("*/*.parquet")))) as found:
        yield found


@pytest.fixture
def ends(last: Partition) -> list[int]:
    return [(int(last.end.timestamp()) - days * 86_400) * 1_000_000 for days in (40, 1, 0)]


def run(connection: duckdb.DuckDBPyConnection, text: str, ends: list[int]) -> dict[int, list[dict[str, Any]]]:
    found = snapshots(connection, FeatureQuery("mine:QUERY", text), ends)
    return {end: table.to_pylist() for end, table in found}


def test_rows_of_each_snapshot(connection: duckdb.DuckDBPyConnection, ends: list[int]) -> None:
    """A query's rows come per snapshot, ordered by entity, and count no event from after it."""
    found = run(connection, COUNTS, ends)
    events = connection.sql("SELECT user_id, event_us FROM events").fetchall()
    for end in ends:
        counts: dict[int, float] = {}
        for user, time in events:
            if time < end:
                counts[user] = counts.get(user, 0) + 1
        assert found[end] == [{"user_id": user, "lines": counts[user]} for user in sorted(counts)]


def test_events_at_the_end_belong_to_the_next_snapshot(tmp_path: Path, at: At, last: Partition) -> None:
    """History ends just before the snapshot does: midnight is the next day's."""
    day = last.start.date()
    row = {"line_id": "x", "user_id": 1, "items": 1, "amount": 1.0, "event_timestamp": last.start}
    cdnow.write_day(tmp_path, day, [row])
    start, end = (int(time.timestamp()) * 1_000_000 for time in (last.start, last.end))
    with open_history(at(tmp_path)[0], [f"{tmp_path}/date={day}/part-0.parquet"]) as connection:
        assert run(connection, COUNTS, [start, end]) == {start: [], end: [{"user_id": 1, "lines": 1.0}]}


@pytest.mark.parametrize("text", [f"{COUNTS};\n", f"\n{COUNTS} -- the end"])
def test_semicolon_and_comment_at_the_end(
    connection: duckdb.DuckDBPyConnection, ends: list[int], monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    """Text as people write it in SQL files runs."""
    monkeypatch.setattr(daily, "MINE", text, raising=False)
    loaded = FeatureQuery.load("churn.features.daily:MINE")
    assert run(connection, loaded.text, ends) == run(connection, COUNTS, ends)


@pytest.mark.parametrize(("text", "told"), [
    ("SELEKT 1", "one SELECT from history.*syntax error"),
    ("DROP TABLE events", "one SELECT from history.*syntax error"),
    ("SELECT 1; SELECT 2", "one SELECT from history.*syntax error"),
    ("SELECT snapshot_us, user_id, nosuch AS x FROM history", "one SELECT from history.*nosuch"),
    ("SELECT * FROM purchases", "one SELECT from history.*purchases"),
    ("SELECT user_id, 1::DOUBLE AS x FROM history", "one SELECT from history.*snapshot_us"),
    ("SELECT snapshot_us, 1::DOUBLE AS user_id, 1::DOUBLE AS x FROM history", "saw user_id DOUBLE"),
    ("SELECT snapshot_us, user_id, count(*) AS x, sum(items) AS y FROM history GROUP BY ALL",
     "saw x BIGINT, y HUGEINT"),
    ("SELECT DISTINCT snapshot_us, user_id FROM history", "saw no feature"),
    ("SELECT snapshot_us, user_id, now() AS created_timestamp, 1::DOUBLE AS x FROM history",
     "saw created_timestamp, which is added to it"),
    ("SELECT snapshot_us, user_id, 1::DOUBLE AS amount_y FROM history", "saw amount_y, which Feast's join drops"),
    ("SELECT snapshot_us, user_id, 1::DOUBLE AS x FROM history", r"one row per snapshot and user_id; saw several for "
     r"user_id=1 at 2026-07-31T00:00:00\+00:00"),
    ("SELECT DISTINCT snapshot_us + 1 AS snapshot_us, user_id, 1::DOUBLE AS x FROM history", "was not asked for"),
    ("SELECT DISTINCT snapshot_us, NULL::BIGINT AS user_id, 1::DOUBLE AS x FROM history", "in every row; saw 3 nulls"),
])
def test_breaches_are_named(connection: duckdb.DuckDBPyConnection, ends: list[int], text: str, told: str) -> None:
    """Each breach is a configuration error that names the query, what was wrong, and where the contract is."""
    with pytest.raises(ConfigurationError, match=rf"(?s)feature query mine:QUERY: expected .*{told}") as raised:
        run(connection, text, ends)
    assert "airflow_provider_ragops.features.query says what" in str(raised.value)


def test_value_that_stops_the_query(connection: duckdb.DuckDBPyConnection, ends: list[int]) -> None:
    """Data that the query can't compute with are a data error, with the value."""
    text = "SELECT snapshot_us, user_id, max(line_id::DOUBLE) AS x FROM history GROUP BY ALL"
    with pytest.raises(DataError, match=r"(?s)feature query mine:QUERY: expected events whose values.*2026-0"):
        run(connection, text, ends)


def test_dates_do_not_follow_the_machine(
    tmp_path: Path, at: At, last: Partition, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A query that asks for the hour gets it in UTC, wherever the worker stands."""
    monkeypatch.setenv("TZ", "America/New_York")
    row = {"line_id": "x", "user_id": 1, "items": 1, "amount": 1.0, "event_timestamp": last.start.astimezone(UTC)}
    cdnow.write_day(tmp_path, last.start.date(), [row])
    text = "SELECT snapshot_us, user_id, hour(event_timestamp)::DOUBLE AS hour FROM history"
    end = int(last.end.timestamp()) * 1_000_000
    with open_history(at(tmp_path)[0], [f"{tmp_path}/date={last.key}/part-0.parquet"]) as connection:
        assert run(connection, text, [end]) == {end: [{"user_id": 1, "hour": 0.0}]}


@pytest.mark.parametrize(("path", "told"), [
    ("churn.nosuch:QUERY", "ModuleNotFoundError"),
    ("churn.features.daily", "AttributeError"),
    ("churn.features.daily:FEATURES", "a dict"),
    ("churn.features.daily:EMPTY", "an empty one"),
])
def test_bad_path(path: str, told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A path that leads to no SQL is a configuration error that repeats it."""
    monkeypatch.setattr(daily, "EMPTY", " \n", raising=False)
    with pytest.raises(ConfigurationError, match=told) as raised:
        FeatureQuery.load(path)
    assert f"feature query {path!r}: expected package.module:attribute naming a string of SQL" in str(raised.value)
