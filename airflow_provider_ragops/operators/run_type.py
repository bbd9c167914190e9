"""How a DAG run came about."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from airflow.sdk import Context


def run_type(context: Context) -> str:
    """``scheduled``, ``manual``, ``backfill``, ``asset_triggered``, ...; Airflow gives text or a member of its enum."""
    kind = context["dag_run"].run_type
    return str(getattr(kind, "value", kind))
