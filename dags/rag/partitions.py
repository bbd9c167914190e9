"""Writes the pairs as daily partitions: each day's folder holds the whole collection as it was on that day.

Run: ``PYTHONPATH=dags python -m rag.partitions --output /data/passages`` (for yesterday; ``--day 2026-11-29``).
"""

from __future__ import annotations

import argparse
import hashlib
import logging
from collections.abc import Iterable
from datetime import date, datetime, timezone
from pathlib import Path
from typing import Any

from rag import documentation, policies
from rag.documentation import LIBRARIES, Pair

from airflow_provider_ragops.contract import ONE_DAY, PARTITION_MARKER, UTC, day_folder

PART = "part-0.parquet"
logger = logging.getLogger(__name__)


def collection(libraries: Iterable[str] = LIBRARIES) -> list[Pair]:
    """All pairs: the documentation of these libraries, and the policies."""
    return [*documentation.pairs(libraries), *policies.pairs()]


def rows_of(pairs: Iterable[Pair], day: date) -> list[dict[str, Any]]:
    """Contract rows of one day, in the order of their ids. An id names its text: a changed text is another passage."""
    moment = datetime.combine(day, datetime.min.time(), tzinfo=UTC)
    rows = []
    for pair in pairs:
        passage_id = _id(pair.module, pair.title, pair.passage)
        rows.append({
            "pair_id": _id(passage_id, pair.question), "passage_id": passage_id, **vars(pair),
            "event_timestamp": moment,
        })  # fmt: skip
    return sorted(rows, key=lambda row: str(row["pair_id"]))


def write_day(location: Path, day: date, pairs: Iterable[Pair]) -> int:
    """Write one partition, the file whole or not at all, the marker last; returns the number of rows."""
    import pyarrow as pa
    from pyarrow import parquet

    texts = ("pair_id", "passage_id", "source", "library", "module", "title", "question", "passage")
    schema = pa.schema({**dict.fromkeys(texts, pa.string()), "event_timestamp": pa.timestamp("us", tz="UTC")})
    rows, folder = rows_of(pairs, day), location / day_folder(day)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / PARTITION_MARKER).unlink(missing_ok=True)
    parquet.write_table(pa.Table.from_pylist(rows, schema=schema), folder / f".{PART}.tmp")
    (folder / f".{PART}.tmp").replace(folder / PART)
    (folder / PARTITION_MARKER).touch()
    return len(rows)


def _id(*parts: str) -> str:
    return hashlib.sha256("\x1f".join(parts).encode()).hexdigest()[:16]


def main() -> None:
    parser = argparse.ArgumentParser(description="Write question-passage pairs as a daily partition.")
    parser.add_argument("--output", type=Path, required=True, help="folder of the partitions")
    yesterday = datetime.now(timezone.utc).date() - ONE_DAY
    parser.add_argument("--day", type=date.fromisoformat, default=yesterday, help="the day (yesterday)")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    count = write_day(arguments.output, arguments.day, collection())
    logger.info("Wrote %d pairs for %s under %s", count, arguments.day, arguments.output)


if __name__ == "__main__":
    main()
