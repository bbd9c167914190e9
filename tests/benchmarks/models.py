"""The models that both servers of the serving benchmark load, from the same files."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

FEATURES = tuple(f"f{number}" for number in range(8))
WEIGHTS = tuple(0.1 * (number + 1) for number in range(8))


class Linear:
    """A function that costs next to nothing: what is measured is the server."""

    def predict(self, frame: Any) -> Any:
        import numpy as np

        return frame.to_numpy() @ np.array(WEIGHTS)


def _load_pyfunc(path: str) -> Linear:
    return Linear()


def save_linear(folder: Path) -> None:
    import mlflow

    example = frame()
    (empty := folder.parent / "empty").mkdir(exist_ok=True)
    mlflow.pyfunc.save_model(
        str(folder), loader_module=__name__, data_path=str(empty), input_example=example,
        signature=mlflow.models.infer_signature(example, Linear().predict(example)), pip_requirements=["numpy"],
    )


def save_churn(folder: Path) -> None:
    """The network of the churn example, with random weights: a model function of the usual cost."""
    import mlflow
    import torch

    from airflow_provider_ragops.workloads.training import served
    from airflow_provider_ragops.workloads.training.network import Network

    torch.manual_seed(7)
    network, example = Network(len(FEATURES)), frame()
    with tempfile.TemporaryDirectory() as made:
        (files := Path(made) / "network").mkdir()
        served.save(network, FEATURES, files)
        mlflow.pyfunc.save_model(
            str(folder), loader_module=served.__name__, data_path=str(files), input_example=example,
            signature=mlflow.models.infer_signature(example, served.ServedNetwork(network, FEATURES).predict(example)),
            pip_requirements=["torch"],
        )


def frame(rows: int = 3) -> Any:
    import numpy as np
    import pandas as pd

    return pd.DataFrame(np.random.default_rng(7).normal(size=(rows, len(FEATURES))), columns=list(FEATURES))


MODELS = {"linear": save_linear, "churn": save_churn}
