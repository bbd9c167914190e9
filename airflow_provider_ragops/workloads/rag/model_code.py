"""What MLflow runs to load a retriever ("models from code"): the class comes from the image, not from a pickle."""

from __future__ import annotations

# Run by MLflow's loader only.
from mlflow.models import set_model  # noqa: TID253

from airflow_provider_ragops.workloads.rag.pyfunc import RagModel

set_model(RagModel())
