"""Labels of the past: who is observed when, and whether an event followed.

The label is 1 where an entity has no event in the horizon after the observation (it churned), else 0. All observation
times lie a whole horizon before the partition's end, so every label is known.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from airflow_provider_ragops.contract import COLUMN_ENTITY, COLUMN_LABEL, COLUMN_TIME, ONE_DAY, Partition
from airflow_provider_ragops.exceptions import ConfigurationError, DataError
from airflow_provider_ragops.features.history import duckdb_paths, read_history

if TYPE_CHECKING:
    import pandas as pd
    from fsspec import AbstractFileSystem

_LABELS = f"""
WITH events AS (
    SELECT {COLUMN_ENTITY}::BIGINT AS entity, epoch_us({COLUMN_TIME}) AS event_us
    FROM read_parquet($paths, hive_partitioning = false)
),
firsts AS (SELECT entity, min(event_us) AS first_us FROM events GROUP BY entity),
times AS (SELECT unnest($times::BIGINT[]) AS at_us),
observed AS (SELECT entity, at_us FROM firsts JOIN times ON first_us < (at_us - $lag) // $day * $day)
SELECT o.entity AS {COLUMN_ENTITY}, o.at_us,
       (NOT EXISTS (SELECT 1 FROM events e WHERE e.entity = o.entity AND e.event_us >= o.at_us
                    AND e.event_us < o.at_us + $horizon))::BIGINT AS {COLUMN_LABEL}
FROM observed o ORDER BY o.at_us, o.entity
"""  # noqa: S608 - only column names of the contract are put in


@dataclass(frozen=True)
class Observations:
    """When entities are observed and for how long they are then watched. ``lag`` as in the snapshots."""

    horizon: timedelta = timedelta(days=90)
    window: timedelta = timedelta(days=28)
    step: timedelta = timedelta(days=7)
    lag: timedelta = timedelta(hours=2)

    def times(self, partition: Partition) -> list[datetime]:
        """Oldest first, all in ``[end - horizon - window, end - horizon]``.

        :raises ConfigurationError: when step or horizon are not positive, or window or lag are negative.
        """
        zero = timedelta(0)
        if self.step <= zero or self.horizon <= zero or self.window < zero or self.lag < zero:
            raise ConfigurationError(
                "observations of a training set", expected="step and horizon above zero, window and lag not below",
                seen=str(self), action="Correct the operator's arguments.",
            )
        last = partition.end - self.horizon
        return [last - self.step * back for back in range(self.window // self.step, -1, -1)]


def label(source: tuple[AbstractFileSystem, str], partition: Partition, observations: Observations) -> pd.DataFrame:
    """Every entity at each observation time at which a snapshot of it was known, with its label.

    :raises DataError: when there is no such entity.
    """
    import duckdb
    import pandas as pd

    fs, root = source
    times = observations.times(partition)
    micro = timedelta(microseconds=1)
    values = {
        "times": [int(time.timestamp()) * 1_000_000 for time in times], "horizon": observations.horizon // micro,
        "lag": observations.lag // micro, "day": ONE_DAY // micro,
    }
    paths = read_history(fs, root, partition).paths
    with duckdb.connect() as connection:
        found = duckdb_paths(connection, fs, paths)
        frame = connection.sql(_LABELS, params={**values, "paths": found}).df()
    if frame.empty:
        raise DataError(
            f"training set of partition {partition.key}",
            expected=f"entities with an event before {times[-1].isoformat()}", seen="none",
            action="Choose a later partition: labels need a whole horizon after the observation.",
        )
    frame[COLUMN_TIME] = pd.to_datetime(frame.pop("at_us"), unit="us", utc=True).astype("datetime64[us, UTC]")
    return frame
