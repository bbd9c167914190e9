"""Feature definitions of the churn example: one entity, one view over the daily snapshots.

Feast's own command line needs the DAG folder on its path: ``PYTHONPATH=dags feast -c dags/churn/features plan``.
"""

from __future__ import annotations

from datetime import timedelta

from churn.features.daily import FEATURES
from churn.settings import FEATURE_VIEW, FEATURES_LOCATION

# Loaded by the Feast operators inside their tasks, never by the DAG processor.
from feast import Entity, FeatureView, Field, FileSource  # noqa: TID253
from feast.types import Float64, Int64  # noqa: TID253
from feast.value_type import ValueType  # noqa: TID253

user = Entity(name="user_id", join_keys=["user_id"], value_type=ValueType.INT64)

snapshots = FileSource(
    name="user_financial_snapshots",
    path=f"{FEATURES_LOCATION.rstrip('/')}/date=*/features.parquet",
    timestamp_field="event_timestamp",
    created_timestamp_column="created_timestamp",
)

user_financial_features = FeatureView(
    name=FEATURE_VIEW,
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
