"""Writes the daily feature snapshots that end with a partition."""

from __future__ import annotations

from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from airflow_provider_ragops.contract import Partition
from airflow_provider_ragops.features.query import FeatureQuery
from airflow_provider_ragops.features.snapshots import HISTORY_DAYS, LAG, write_snapshots
from airflow_provider_ragops.features.storage import local_path
from airflow_provider_ragops.hooks.location import open_location
from airflow_provider_ragops.operators.translation import translated_errors

if TYPE_CHECKING:
    from airflow.sdk import Context


class FeatureSnapshotOperator(BaseOperator):
    """
    Compute one feature snapshot per day from all history before the partition's end, by a query of your own.

    Days whose input and query are unchanged are skipped, so a rerun costs nothing. Returns counts:
    ``{"written": snapshots, "unchanged": snapshots, "rows": rows written, "gaps": days of history without a folder}``.

    :param query: import path ``package.module:attribute`` of the SQL; what it reads and returns:
        :mod:`airflow_provider_ragops.features.query`
    :param location: path or URL of the events' day folders (templated)
    :param features_location: local or mounted path to write ``date=D/features.parquet`` under (templated); a URL is
        refused, because Feast's duckdb store opens the files by path
    :param partition: key of the partition (templated)
    :param history_days: snapshots to keep up to date, counted back from the partition's end; must cover the label's
        horizon, the observation window and the feature view's TTL
    :param lag: how long after a day's end its values are knowable
    :param conn_id: Airflow connection of the events' storage
    """

    template_fields = ("location", "features_location", "partition")

    def __init__(
        self, *, query: str, location: str, features_location: str, partition: str,
        history_days: int = HISTORY_DAYS, lag: timedelta = LAG, conn_id: str | None = None, **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.query = query
        self.location = location
        self.features_location = features_location
        self.partition = partition
        self.history_days = history_days
        self.lag = lag
        self.conn_id = conn_id

    def execute(self, context: Context) -> dict[str, Any]:  # noqa: ARG002 - Airflow's signature
        with translated_errors():
            target = Path(local_path("features location", self.features_location))
            report = write_snapshots(
                open_location(self.location, self.conn_id), target, Partition.parse(self.partition),
                FeatureQuery.load(self.query), history_days=self.history_days, lag=self.lag,
            )
        if report.gaps:
            self.log.warning("History has no folder for %d days, first %s", len(report.gaps), report.gaps[0])
        self.log.info("Wrote %d snapshots (%d rows), %d unchanged",
                      len(report.written), report.rows, report.unchanged)
        return {**asdict(report), "written": len(report.written), "gaps": len(report.gaps)}
