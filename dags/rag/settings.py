"""Deploy settings of the RAG example, from the environment; cheap enough for every parse. See docs/settings.md.

What both examples share (image and namespace of the pods, MLflow's address and Secret) is the churn example's.
"""

from __future__ import annotations

import os

from churn.settings import (  # noqa: F401 - one name for the DAG
    GPUS,
    MLFLOW_SECRET,
    POD_MLFLOW_URI,
    SERVICE_ACCOUNT,
    TRAINING_IMAGE,
    TRAINING_NAMESPACE,
)

MODEL = "rag-retriever"
EXPERIMENT = "rag"

DATA_LOCATION = os.environ.get("RAGOPS_RAG_DATA_LOCATION", "s3://rag/passages")
SERVING_NAMESPACE = os.environ.get("RAGOPS_RAG_SERVING_NAMESPACE", "ml-serving")
DEPLOYMENT = os.environ.get("RAGOPS_RAG_DEPLOYMENT", "mlflow-serve-rag")
REDIS_CONN = os.environ.get("RAGOPS_RAG_REDIS_CONN") or None
# Two models on one Redis count their versions from 1 each: where another one has such keys, set a prefix.
REDIS_PREFIX = os.environ.get("RAGOPS_RAG_REDIS_PREFIX", "")
# Off where no tier serves the model: model_reconcile would report a missing Deployment every 15 minutes.
ENABLED = os.environ.get("RAGOPS_RAG", "off") == "on"
