"""The feature query: SQL of the application, run by DuckDB against history.

The contract of a query, which is one SELECT without parameters:

It reads the relation ``history``, and only that: for each snapshot one row per event before the snapshot's end and
none after, so that it can't look ahead. Columns: ``snapshot_us`` and ``event_us`` (BIGINT, microseconds since 1970
UTC: end of the snapshot, time of the event), and all columns of the data files as they are.

It returns ``snapshot_us`` as read, ``user_id`` (BIGINT) and at least one feature (each DOUBLE), one row per snapshot
and entity; a training set wants a row for each entity with an event before the snapshot. ``event_timestamp``,
``created_timestamp`` and ``known_at`` are added to it. A name that ends in ``_y`` is refused: Feast's join drops it.

Equal data must give equal values, in any order of threads: sum DECIMAL or integers, not DOUBLE; no clock, no chance.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from airflow_provider_ragops.contract import COLUMN_CREATED, COLUMN_ENTITY, COLUMN_TIME, UTC
from airflow_provider_ragops.exceptions import ConfigurationError, DataError
from airflow_provider_ragops.features.history import EVENTS
from airflow_provider_ragops.import_path import load, refusal

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

COLUMN_SNAPSHOT = "snapshot_us"
COLUMN_KNOWN = "known_at"  # seconds since 1970: when the row became knowable
_KEYS = (COLUMN_SNAPSHOT, COLUMN_ENTITY)
_ADDED = (COLUMN_TIME, COLUMN_CREATED, COLUMN_KNOWN)
_EXPECTED = "a string of SQL"

_SNAPSHOTS = f"CREATE OR REPLACE TEMP TABLE snapshots AS SELECT unnest($ends::BIGINT[]) AS {COLUMN_SNAPSHOT}"
_HISTORY = f"""
CREATE OR REPLACE TEMP VIEW history AS
SELECT s.{COLUMN_SNAPSHOT}, e.* FROM snapshots s JOIN events e ON e.event_us < s.{COLUMN_SNAPSHOT}
"""  # noqa: S608 - only a column name is put in


@dataclass(frozen=True)
class FeatureQuery:
    """A query and the import path that names it in errors."""

    name: str
    text: str

    @classmethod
    def load(cls, path: str) -> FeatureQuery:
        """Import the text by ``package.module:attribute``.

        :raises ConfigurationError: when the path leads to no text.
        """
        found = load(path, subject="feature query", expected=_EXPECTED)
        if not isinstance(found, str) or not found.strip():
            seen = "an empty one" if isinstance(found, str) else f"a {type(found).__name__}"
            raise refusal(path, subject="feature query", expected=_EXPECTED, seen=seen)
        return cls(path, found.strip().removesuffix(";"))

    @property
    def code(self) -> str:
        """All SQL that the values depend on."""
        return "\n".join((EVENTS, _SNAPSHOTS, _HISTORY, self.text))


def snapshots(
    connection: duckdb.DuckDBPyConnection, query: FeatureQuery, ends: Sequence[int]
) -> Iterator[tuple[int, pa.Table]]:
    """Run the query for these snapshot ends (microseconds); yield each with its rows, ordered by entity.

    :raises ConfigurationError: when the query or what it returns breaks the contract above.
    :raises DataError: when a value of the data stops the query.
    """
    import duckdb

    connection.execute(_SNAPSHOTS, {"ends": list(ends)})
    connection.execute(_HISTORY)
    try:
        # Within parentheses only a SELECT can stand; the line break ends a comment on its last line.
        relation = connection.sql(f"SELECT * FROM ({query.text}\n) ORDER BY {', '.join(_KEYS)}")  # noqa: S608
    except duckdb.ProgrammingError as error:
        raise _broken(query, "one SELECT from history that returns snapshot_us and user_id", str(error)) from error
    _check_columns(query, dict(zip(relation.columns, map(str, relation.types), strict=True)))
    try:
        found = relation.to_arrow_table()
    except duckdb.DataError as error:
        raise DataError(
            f"feature query {query.name}", expected="events whose values it can compute with", seen=str(error),
            action="Correct the data or the query.",
        ) from error
    _check_rows(query, found, ends)
    column, table = found[COLUMN_SNAPSHOT].to_numpy(), found.drop_columns([COLUMN_SNAPSHOT])
    for end in ends:
        start, stop = column.searchsorted(end, "left"), column.searchsorted(end, "right")
        yield end, table.slice(start, stop - start)


def _check_columns(query: FeatureQuery, types: dict[str, str]) -> None:
    features = {name: kind for name, kind in types.items() if name not in (*_KEYS, *_ADDED)}
    wrong = [
        *(f"{name} {types.get(name, 'missing')}" for name in _KEYS if types.get(name) != "BIGINT"),
        *(f"{name}, which is added to it" for name in _ADDED if name in types),
        *(f"{name} {kind}" for name, kind in features.items() if kind != "DOUBLE"),
        *(f"{name}, which Feast's join drops" for name in features if name.endswith("_y")),
        *([] if features else ["no feature"]),
    ]
    if wrong:
        expected = f"{' and '.join(_KEYS)} as BIGINT, features as DOUBLE, and at least one of them"
        raise _broken(query, expected, ", ".join(wrong))


def _check_rows(query: FeatureQuery, found: pa.Table, ends: Sequence[int]) -> None:
    if nulls := sum(found[key].null_count for key in _KEYS):
        raise _broken(query, f"{' and '.join(_KEYS)} in every row", f"{nulls} nulls")
    ended, entity = (found[key].to_numpy() for key in _KEYS)
    if strange := set(ended.tolist()) - set(ends):
        raise _broken(query, f"{COLUMN_SNAPSHOT} as read from history", f"{min(strange)}, which was not asked for")
    again = (ended[1:] == ended[:-1]) & (entity[1:] == entity[:-1])
    if again.any():
        first = int(again.argmax())
        when = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=int(ended[first]))
        seen = f"several for {COLUMN_ENTITY}={entity[first]} at {when.isoformat()}"
        raise _broken(query, f"one row per snapshot and {COLUMN_ENTITY}", seen)


def _broken(query: FeatureQuery, expected: str, seen: str) -> ConfigurationError:
    return ConfigurationError(
        f"feature query {query.name}", expected=expected, seen=seen,
        action=f"Correct the query; {__name__} says what it may read and must return.",
    )
