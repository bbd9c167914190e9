"""Small valid transactions, as a frame and as a partition on disk."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from churn import cdnow

from airflow_provider_ragops.contract import UTC, Partition

DAY = date(2026, 11, 29)


def rows(count: int = 6) -> list[dict[str, Any]]:
    start = datetime(DAY.year, DAY.month, DAY.day, tzinfo=UTC)
    return [
        {"line_id": f"line{number}", "user_id": number % 3 + 1, "items": 1, "amount": 10.0 * number,
         "event_timestamp": start + timedelta(hours=number)}
        for number in range(count)
    ]


@pytest.fixture
def partition() -> Partition:
    return Partition.of_day(DAY)


@pytest.fixture
def location(tmp_path: Path) -> Path:
    cdnow.write_day(tmp_path, DAY, rows())
    return tmp_path
