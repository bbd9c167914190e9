"""A hundred days of made-up purchases that keep the churn example's contract."""

from __future__ import annotations

import random
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

from churn import cdnow

from airflow_provider_ragops.contract import UTC, Partition

FIRST = date(2026, 6, 1)
DAYS = 100
CUSTOMERS = 160
LAST = Partition.of_day(FIRST + timedelta(days=DAYS - 1))


def purchases(seed: int = 7) -> dict[date, list[dict[str, Any]]]:
    """Every day has a purchase; customers come, some come back, some stay away."""
    dice = random.Random(seed)  # noqa: S311 - no secret
    days = {}
    for number in range(DAYS):
        day = FIRST + timedelta(days=number)
        midnight = datetime(day.year, day.month, day.day, tzinfo=UTC)
        days[day] = [
            {
                "line_id": f"{day}-{line}", "user_id": dice.randint(1, 4 + number * CUSTOMERS // DAYS),
                "items": dice.randint(1, 4), "amount": round(dice.uniform(0, 60), 2),
                "event_timestamp": midnight + timedelta(seconds=dice.randrange(86_400)),
            }
            for line in range(dice.randint(1, 4))
        ]
    return days


def write(location: Path) -> Path:
    for day, rows in purchases().items():
        cdnow.write_day(location, day, rows)
    return location
