"""Finds the partition of a run once, so that every later task of the run works on the same days."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from airflow_provider_ragops.contract import UTC, Partition
from airflow_provider_ragops.operators.translation import translated_errors

if TYPE_CHECKING:
    from airflow.sdk import Context


class PartitionResolveOperator(BaseOperator):
    """
    Resolve the partition of this run: the param, else the partition key, else the data interval.

    Returns ``{"key": "2026-11-29", "start": iso, "end": iso}``. Fails without retry when there is none, or
    when it is not whole UTC days that are over.

    :param partition: a day ``YYYY-MM-DD`` or days ``YYYY-MM-DD_YYYY-MM-DD``; empty when not asked for (templated)
    """

    template_fields = ("partition",)

    def __init__(self, *, partition: str | None = "{{ params.partition }}", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.partition = partition

    def execute(self, context: Context) -> dict[str, str]:
        with translated_errors():
            found = resolve(context, self.partition, datetime.now(UTC))
        self.log.info("Partition %s: [%s, %s)", found.key, found.start, found.end)
        return {"key": found.key, "start": found.start.isoformat(), "end": found.end.isoformat()}


def resolve(context: Mapping[str, Any], partition: str | None, now: datetime) -> Partition:
    """Apply :meth:`Partition.resolve` to an Airflow context, in which any of the keys may be missing."""
    start, end = context.get("data_interval_start"), context.get("data_interval_end")
    return Partition.resolve(
        # Jinja renders an empty param as the text "None".
        param=None if str(partition or "").strip() in ("", "None") else str(partition).strip(),
        partition_key=context.get("partition_key") or getattr(context.get("dag_run"), "partition_key", None),
        interval=(start, end) if start and end else None,
        now=now,
    )
