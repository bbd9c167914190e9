"""Log the model with everything that a server needs to know about it, and digest what was stored."""

from __future__ import annotations

import logging
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_provider_ragops import contract
from airflow_provider_ragops.workloads.training import served

if TYPE_CHECKING:
    import pandas as pd

    from airflow_provider_ragops.workloads.training.network import Network
    from airflow_provider_ragops.workloads.training_set import TrainingSet

log = logging.getLogger(__name__)

EXAMPLE_ROWS = 3


def log_model(network: Network, data: TrainingSet) -> tuple[str, str]:
    """Log into the active run; returns the model's URI and the digest of its files as a server downloads them."""
    import mlflow

    example = _example(data)
    answer = served.ServedNetwork(network, data.features).predict(example)
    with tempfile.TemporaryDirectory() as folder:
        network_folder = Path(folder) / "network"  # MLflow keeps the folder's name: not a random one
        network_folder.mkdir()
        served.save(network, data.features, network_folder)
        logged = mlflow.pyfunc.log_model(
            name=contract.ARTIFACT_MODEL,
            loader_module=served.__name__,
            data_path=str(network_folder),
            signature=mlflow.models.infer_signature(example, answer),
            input_example=example,
            pip_requirements=_requirements(),
        )
    with tempfile.TemporaryDirectory() as folder:
        stored = mlflow.artifacts.download_artifacts(artifact_uri=logged.model_uri, dst_path=folder)
        return str(logged.model_uri), contract.tree_digest(Path(stored))


def _example(data: TrainingSet) -> pd.DataFrame:
    rows = data.held_out[list(data.features)]
    whole = rows.dropna()
    return (rows if whole.empty else whole).head(EXAMPLE_ROWS).reset_index(drop=True)


def _requirements() -> list[str]:
    """Pin what is installed here. Given explicitly: otherwise MLflow loads the model again to guess them."""
    import mlflow
    import numpy as np
    import pandas as pd
    import torch

    # The local part (+cpu) names a build that a package index need not offer.
    return [f"{module.__name__}=={module.__version__.split('+')[0]}" for module in (mlflow, np, pd, torch)]
