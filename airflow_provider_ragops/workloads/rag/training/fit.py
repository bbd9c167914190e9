"""Fit the head: contrastive, with the other passages of the batch as negatives, over base embeddings computed once.

The head is a matrix (dimension, 384). It starts as nearly the base encoder itself, so that an untrained one is no
worse: the identity (with small random rows below it where there are more than 384), or the leading directions of the
training embeddings where there are fewer. Seeded: equal pairs, parameters and kind of processor give equal numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from airflow_provider_ragops.workloads.process import StopCheck
from airflow_provider_ragops.workloads.rag.training.parameters import RetrieverParameters

if TYPE_CHECKING:
    import torch
    from numpy.typing import NDArray

TEMPERATURE = 0.05
_SMALL = 0.005  # size of the random rows: enough to be trained, too little to be heard before

EpochReport = Callable[[int, dict[str, float]], None]


def fit(
    questions: NDArray[np.float32],
    passages: NDArray[np.float32],
    parameters: RetrieverParameters,
    report: EpochReport,
    check: StopCheck = lambda: None,
) -> NDArray[np.float32]:
    """Train on pairs of unit rows, (pairs, 384) each; equal passages are no negatives of one another.

    ``report`` gets the mean ``train_loss`` after each epoch; ``check`` is called before each step.
    """
    import torch

    from airflow_provider_ragops.workloads.training.fit import prepare

    device = prepare(parameters.seed)
    random = torch.Generator().manual_seed(parameters.seed)
    asked, told = (torch.from_numpy(each).to(device) for each in (questions, passages))
    names = torch.from_numpy(np.unique(passages, axis=0, return_inverse=True)[1].reshape(-1)).to(device)
    head = first_head(questions, passages, parameters.dimension, random).to(device).requires_grad_()
    optimizer = torch.optim.Adam([head], lr=parameters.learning_rate)
    for epoch in range(1, parameters.epochs + 1):
        total = 0.0
        for batch in torch.randperm(len(asked), generator=random).to(device).split(parameters.batch_size):
            check()
            optimizer.zero_grad()
            loss = contrast(asked[batch] @ head.T, told[batch] @ head.T, names[batch])
            loss.backward()
            optimizer.step()
            total += loss.item() * len(batch)
        report(epoch, {"train_loss": total / len(asked)})
    return np.ascontiguousarray(head.detach().cpu().numpy())


def first_head(
    questions: NDArray[np.float32], passages: NDArray[np.float32], dimension: int, random: torch.Generator
) -> torch.Tensor:
    """The head before training."""
    import torch

    width = questions.shape[1]
    if dimension < width:
        _, _, directions = torch.linalg.svd(torch.from_numpy(np.vstack([questions, passages])), full_matrices=False)
        found = torch.zeros(dimension, width)
        found[: len(directions)] = directions[:dimension]  # fewer than asked for where there are few pairs
        return found
    more = torch.randn(dimension - width, width, generator=random) * _SMALL
    return torch.cat([torch.eye(width), more])


def contrast(questions: torch.Tensor, passages: torch.Tensor, names: torch.Tensor) -> torch.Tensor:
    """InfoNCE in both directions. ``names`` are equal where passages are the same."""
    import torch
    from torch.nn import functional

    cosines = functional.normalize(questions, dim=1) @ functional.normalize(passages, dim=1).T
    same = (names[:, None] == names[None, :]) & ~torch.eye(len(names), dtype=torch.bool, device=names.device)
    logits = (cosines / TEMPERATURE).masked_fill(same, -torch.inf)
    own = torch.arange(len(names), device=names.device)
    return (functional.cross_entropy(logits, own) + functional.cross_entropy(logits.T, own)) / 2
