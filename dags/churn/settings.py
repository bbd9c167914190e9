"""Deploy settings of the churn example, from the environment; cheap enough for every parse."""

from __future__ import annotations

import os
from pathlib import Path

MODEL = "CustomerChurnPredictor"
EXPERIMENT = "churn"
FEATURE_VIEW = "user_financial_features"

DATA_LOCATION = os.environ.get("RAGOPS_DATA_LOCATION", "s3://churn/transactions")
FEATURES_LOCATION = os.environ.get("RAGOPS_FEATURES_LOCATION", "s3://churn/features")
FEAST_REPO = os.environ.get("RAGOPS_FEAST_REPO", str(Path(__file__).parent / "features"))
TRAINING_IMAGE = os.environ.get("RAGOPS_TRAINING_IMAGE", "ragops/training:latest")
TRAINING_NAMESPACE = os.environ.get("RAGOPS_TRAINING_NAMESPACE", "ml-workloads")
SERVING_NAMESPACE = os.environ.get("RAGOPS_SERVING_NAMESPACE", "ml-serving")
GPUS = int(os.environ.get("RAGOPS_GPUS", "1"))
# Off where runs are only triggered: a just-unpaused DAG starts today's run and blocks the one slot.
SCHEDULED = os.environ.get("RAGOPS_SCHEDULE", "on") == "on"
