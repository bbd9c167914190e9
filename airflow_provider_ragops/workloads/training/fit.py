"""Fit the network, seeded: equal data, parameters and kind of device give equal numbers to the last digit.

Across kinds of processors the last digits may differ: vectorised sums are added in another order.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from airflow_provider_ragops import contract
from airflow_provider_ragops.workloads import metrics
from airflow_provider_ragops.workloads.process import StopCheck
from airflow_provider_ragops.workloads.training.parameters import TrainingParameters
from airflow_provider_ragops.workloads.training_set import TrainingSet

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    import torch
    from numpy.typing import NDArray

    from airflow_provider_ragops.workloads.training.network import Network

log = logging.getLogger(__name__)

# Fixed, because the number of threads decides in which order partial sums are added; and one, because a small
# network's steps are shorter than the threads' wait for each other (measured: 34 times the CPU time with two on
# a busy machine with two cores).
THREADS = 1

EpochReport = Callable[[int, dict[str, float]], None]


def fit(
    data: TrainingSet, parameters: TrainingParameters, report: EpochReport, check: StopCheck = lambda: None
) -> Network:
    """Train on the train split and report ``train_loss``, ``val_auc`` and ``val_log_loss`` after each epoch.

    ``check`` is called before each step and raises when the process was told to stop.
    """
    import torch
    from torch import nn

    from airflow_provider_ragops.workloads.training.network import Network

    device = prepare(parameters.seed)
    rows, labels = tensors(data.train, data.features, device)
    held_out, _ = tensors(data.held_out, data.features, device)
    network: Network = Network(len(data.features)).to(device)
    network.learn_scale(rows)
    optimizer = torch.optim.Adam(network.parameters(), lr=parameters.learning_rate)
    loss_of = nn.BCEWithLogitsLoss()
    shuffle = torch.Generator().manual_seed(parameters.seed)
    for epoch in range(1, parameters.epochs + 1):
        network.train()
        total = torch.zeros((), dtype=torch.float64, device=device)
        order = torch.randperm(len(rows), generator=shuffle).to(device)
        for batch in order.split(parameters.batch_size):
            check()
            optimizer.zero_grad()
            loss = loss_of(network(rows[batch]), labels[batch])
            loss.backward()
            optimizer.step()
            total += loss.detach().double() * len(batch)
        report(epoch, {"train_loss": total.item() / len(rows), **_validation(network, held_out, data.held_out)})
    return network


def prepare(seed: int) -> torch.device:
    """Make torch deterministic and choose the device: CUDA where there is one, else the CPU."""
    # Read when CUDA starts; without it cuBLAS may choose among algorithms with different sums.
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    import torch

    torch.set_num_threads(THREADS)
    torch.use_deterministic_algorithms(True)
    torch.manual_seed(seed)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    log.info("training on %s with torch %s", device, torch.__version__)
    return device


def tensors(
    frame: pd.DataFrame, features: tuple[str, ...], device: torch.device
) -> tuple[torch.Tensor, torch.Tensor]:
    """Give the rows as float64 (rows, features) and the labels as float32 (rows,)."""
    import torch

    rows = torch.from_numpy(frame[list(features)].to_numpy(dtype="float64", copy=True))
    labels = torch.from_numpy(frame[contract.COLUMN_LABEL].to_numpy(dtype="float32", copy=True))
    return rows.to(device), labels.to(device)


def probabilities(network: Network, rows: torch.Tensor) -> NDArray[np.float64]:
    """Score rows: the chance of label 1, float64 (rows,)."""
    import torch

    network.eval()
    with torch.inference_mode():
        scores: NDArray[np.float64] = torch.sigmoid(network(rows).double()).cpu().numpy()
    return scores


def _validation(network: Network, rows: torch.Tensor, frame: pd.DataFrame) -> dict[str, float]:
    labels, scores = frame[contract.COLUMN_LABEL], probabilities(network, rows)
    return {"val_auc": metrics.auc(labels, scores), "val_log_loss": metrics.log_loss(labels, scores)}
