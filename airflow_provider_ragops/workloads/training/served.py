"""The trained model as MLflow serves it: a frame of named raw features in, a probability per row out.

MLflow calls ``_load_pyfunc``. The artifact holds tensors and names only: torch reads it with
``weights_only=True`` and the code comes from the image, so a tampered artifact can't run code
(``mlflow.pytorch`` pickles the module, or, as pt2, loses the names of the columns).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

    from airflow_provider_ragops.workloads.training.network import Network

PROBABILITY = "probability"

_WEIGHTS = "weights.pt"
_FEATURES = "features.json"


class ServedNetwork:
    """Scores raw rows on the CPU."""

    def __init__(self, network: Network, features: tuple[str, ...]) -> None:
        self.network = network.cpu().eval()
        self.features = features

    def predict(self, model_input: pd.DataFrame) -> pd.DataFrame:
        """Give one column ``probability`` (float64, 0 to 1) in the order of the rows."""
        import pandas as pd
        import torch

        from airflow_provider_ragops.workloads.training.fit import probabilities

        # A selection costs more than the network does for one row, and a server gives exactly these columns.
        named = model_input if tuple(model_input.columns) == self.features else model_input[list(self.features)]
        scores = probabilities(self.network, torch.from_numpy(named.to_numpy(dtype="float64", copy=True)))
        return pd.DataFrame(scores[:, None], index=model_input.index, columns=[PROBABILITY])


def save(network: Network, features: tuple[str, ...], folder: Path) -> None:
    """Write what :func:`_load_pyfunc` reads."""
    import torch

    torch.save(network.cpu().state_dict(), folder / _WEIGHTS)
    (folder / _FEATURES).write_text(json.dumps(features))


def _load_pyfunc(data_path: str) -> ServedNetwork:
    import torch

    from airflow_provider_ragops.workloads.training.network import Network

    folder = Path(data_path)
    features = tuple(json.loads((folder / _FEATURES).read_text()))
    network = Network(len(features))
    network.load_state_dict(torch.load(folder / _WEIGHTS, map_location="cpu", weights_only=True))
    return ServedNetwork(network, features)
