"""Feature definitions of the churn example: one entity, one view over the daily snapshots."""

from __future__ import annotations

import os
from datetime import timedelta

# Loaded by the Feast operators inside their tasks, never by the DAG processor.
from feast import Entity, FeatureView, Field, FileSource  # noqa: TID253
from feast.types import Float64, Int64  # noqa: TID253
from feast.value_type import ValueType  # noqa: TID253

FEATURES = (
    "avg_transaction_amount_7d", "transaction_count_30d", "transaction_count_90d", "transaction_count_180d",
    "transaction_amount_90d", "days_since_last_transaction", "tenure_days", "transaction_count_total",
    "active_days_total", "avg_transaction_amount_total", "avg_items_total", "mean_days_between_transactions",
)

user = Entity(name="user_id", join_keys=["user_id"], value_type=ValueType.INT64)

snapshots = FileSource(
    name="user_financial_snapshots",
    path=f"{os.environ['RAGOPS_FEATURES_LOCATION'].rstrip('/')}/date=*/features.parquet",
    timestamp_field="event_timestamp",
    created_timestamp_column="created_timestamp",
)

user_financial_features = FeatureView(
    name="user_financial_features",
    entities=[user],
    ttl=timedelta(days=14),
    schema=[
        Field(name="user_id", dtype=Int64),
        # When the row became knowable, in seconds since 1970: no feature, but the proof that none leaks.
        Field(name="known_at", dtype=Int64),
        *(Field(name=name, dtype=Float64) for name in FEATURES),
    ],
    source=snapshots,
)
