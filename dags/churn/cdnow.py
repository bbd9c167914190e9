"""Turns the CDNOW purchases (69,659 real lines of 23,570 customers, 1997-01-01 to 1998-06-30) into partitions.

The data come out of the ``Lifetimes`` wheel (``pip download --no-deps Lifetimes``), read as a zip archive. Dates are
moved by whole weeks, so that weekdays stay: the last day of purchases is the newest one that is yesterday or earlier
and falls on its own weekday, that is up to six days before yesterday. Days after it get no partition; every day
before it, back to the first, has one. The source knows dates only: the time of day is a stable hash of the line.

Run: ``python dags/churn/cdnow.py --source Lifetimes-0.11.3-py3-none-any.whl --output /data/transactions``.
"""

from __future__ import annotations

import argparse
import hashlib
import logging
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import date, datetime, timedelta, timezone
from itertools import groupby
from pathlib import Path
from typing import Any

from airflow_provider_ragops.contract import ONE_DAY, PARTITION_MARKER, UTC, day_folder

MEMBER = "lifetimes/datasets/CDNOW_master.txt"
PART = "part-0.parquet"
_KEPT = "_kept"  # the good part of a broken partition, under a name that no data pattern matches

Row = dict[str, Any]
logger = logging.getLogger(__name__)


def read_purchases(source: Path) -> list[tuple[int, date, int, float]]:
    """Read (customer, day, items, dollars) from a wheel, in the file's order."""
    with zipfile.ZipFile(source) as wheel:
        lines = wheel.read(MEMBER).decode().splitlines()[1:]
    fields = (line.split() for line in lines if line.strip())
    return [(int(user), date.fromisoformat(day), int(items), float(usd)) for user, day, items, usd in fields]


def whole_weeks(last: date, end: date) -> timedelta:
    """The greatest shift by whole weeks that moves ``last`` to ``end`` or earlier."""
    return timedelta(weeks=(end - last).days // 7)


def rows_of(purchases: list[tuple[int, date, int, float]], end: date) -> Iterator[Row]:
    """Make contract rows in time order, moved so that the data end at ``end`` or up to six days earlier.

    Equal lines of one customer and day are numbered, which keeps the 255 true duplicates apart.
    """
    shift = whole_weeks(max(day for _, day, _, _ in purchases), end)
    seen: Counter[tuple[int, date, int, float]] = Counter()
    for purchase in sorted(purchases, key=lambda one: (one[1], one)):
        seen[purchase] += 1
        user, day, items, usd = purchase
        line = hashlib.sha256(f"{user}|{day}|{items}|{usd:.2f}|{seen[purchase]}".encode()).hexdigest()
        midnight = datetime.combine(day + shift, datetime.min.time(), tzinfo=UTC)
        yield {
            "line_id": line[:16], "user_id": user, "items": items, "amount": usd,
            "event_timestamp": midnight + timedelta(seconds=int(line[16:24], 16) % 86_400),
        }


def write_day(location: Path, day: date, rows: list[Row]) -> None:
    """Write one partition: the file whole or not at all, the marker last."""
    import pyarrow as pa

    schema = pa.schema({
        "line_id": pa.string(), "user_id": pa.int64(), "event_timestamp": pa.timestamp("us", tz="UTC"),
        "items": pa.int64(), "amount": pa.float64(),
    })
    _publish(location / day_folder(day), pa.Table.from_pylist(rows, schema=schema))


def write_partitions(source: Path, location: Path, end: date) -> list[date]:
    """Write every day of the source; return the days, oldest first."""
    rows = sorted(rows_of(read_purchases(source), end), key=lambda row: (row["event_timestamp"], row["line_id"]))
    days = {day: list(group) for day, group in groupby(rows, key=lambda row: row["event_timestamp"].date())}
    for day, group in days.items():
        write_day(location, day, group)
    return list(days)


FAULTS: dict[str, Callable[[Any], Any]] = {
    "dropped-column": lambda frame: frame.drop(columns="amount"),
    "wrong-type": lambda frame: frame.assign(amount=frame["amount"].astype(str)),
    "negative-amount": lambda frame: frame.assign(amount=frame["amount"].where(frame.index >= 3, -1.0)),
    "future-timestamp": lambda frame: frame.assign(
        event_timestamp=frame["event_timestamp"].where(frame.index >= 2, frame["event_timestamp"] + 3 * ONE_DAY)
    ),
}


def break_partition(location: Path, day: date, fault: str) -> None:
    """Write a partition that breaks its contract; the good file is kept beside it for :func:`mend_partition`."""
    import pyarrow as pa
    from pyarrow import parquet

    folder = location / day_folder(day)
    if not (folder / _KEPT).exists():
        (folder / _KEPT).write_bytes((folder / PART).read_bytes())
    frame = FAULTS[fault](parquet.ParquetFile(folder / _KEPT).read().to_pandas())
    _publish(folder, pa.Table.from_pandas(frame, preserve_index=False))


def mend_partition(location: Path, day: date) -> None:
    """Put the good file back: history before later partitions must keep the contract too."""
    folder = location / day_folder(day)
    if (folder / _KEPT).exists():
        (folder / _KEPT).replace(folder / PART)


def _publish(folder: Path, table: Any) -> None:
    from pyarrow import parquet

    folder.mkdir(parents=True, exist_ok=True)
    (folder / PARTITION_MARKER).unlink(missing_ok=True)
    parquet.write_table(table, folder / f".{PART}.tmp")
    (folder / f".{PART}.tmp").replace(folder / PART)
    (folder / PARTITION_MARKER).touch()


def main() -> None:
    parser = argparse.ArgumentParser(description="Write the CDNOW purchases as daily partitions.")
    parser.add_argument("--source", type=Path, required=True, help="the Lifetimes wheel")
    parser.add_argument("--output", type=Path, required=True, help="folder of the partitions")
    yesterday = datetime.now(timezone.utc).date() - ONE_DAY
    parser.add_argument("--end", type=date.fromisoformat, default=yesterday, help="last possible day (yesterday)")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    days = write_partitions(arguments.source, arguments.output, arguments.end)
    logger.info("Wrote %d partitions, %s to %s, under %s", len(days), days[0], days[-1], arguments.output)


if __name__ == "__main__":
    main()
