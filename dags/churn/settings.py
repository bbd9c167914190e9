"""Deploy settings of the churn example, from the environment; cheap enough for every parse. See docs/settings.md."""

from __future__ import annotations

import os
from pathlib import Path


def _optional(name: str) -> str | None:
    return os.environ.get(name) or None


MODEL = "CustomerChurnPredictor"
EXPERIMENT = "churn"
FEATURE_VIEW = "user_financial_features"

DATA_LOCATION = os.environ.get("RAGOPS_DATA_LOCATION", "s3://churn/transactions")
FEATURES_LOCATION = os.environ.get("RAGOPS_FEATURES_LOCATION", "/mnt/churn/features")
FEAST_REPO = os.environ.get("RAGOPS_FEAST_REPO", str(Path(__file__).parent / "features"))
# The tag names one build: versions are reused by image, so `latest` is refused.
TRAINING_IMAGE = os.environ.get("RAGOPS_TRAINING_IMAGE", "localhost/ragops/training:0.1.0")
TRAINING_NAMESPACE = os.environ.get("RAGOPS_TRAINING_NAMESPACE", "ml-workloads")
SERVICE_ACCOUNT = _optional("RAGOPS_SERVICE_ACCOUNT")
MLFLOW_SECRET = _optional("RAGOPS_MLFLOW_SECRET")
POD_MLFLOW_URI = _optional("RAGOPS_POD_MLFLOW_URI")
SERVING_NAMESPACE = os.environ.get("RAGOPS_SERVING_NAMESPACE", "ml-serving")
REDIS_CONN = _optional("RAGOPS_REDIS_CONN")
GPUS = int(os.environ.get("RAGOPS_GPUS", "1"))
# Off where runs are only triggered: a just-unpaused DAG starts today's run and blocks the one slot.
_SCHEDULE = os.environ.get("RAGOPS_SCHEDULE", "on")
#: A cron expression in UTC; empty where runs are only triggered.
SCHEDULE = {"on": "0 2 * * *", "off": ""}.get(_SCHEDULE, _SCHEDULE)
