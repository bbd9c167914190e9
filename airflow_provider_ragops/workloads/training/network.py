"""The network: takes raw feature rows, so that nobody has to repeat its preprocessing."""

from __future__ import annotations

from itertools import pairwise

# A leaf: only functions that train or load a model import this module.
import torch  # noqa: TID253
from torch import Tensor, nn  # noqa: TID253

HIDDEN = (64, 32)


class Network(nn.Module):
    """Rows of float64 features (NaN where unknown) to one logit per row.

    Means and scales of the training rows are buffers: they travel with the weights. A missing value becomes
    its column's mean, which is zero after standardisation.
    """

    mean: Tensor
    scale: Tensor

    def __init__(self, features: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(features, dtype=torch.float64))
        self.register_buffer("scale", torch.ones(features, dtype=torch.float64))
        widths = (features, *HIDDEN)
        layers: list[nn.Module] = []
        for width, following in pairwise(widths):
            layers += [nn.Linear(width, following), nn.ReLU()]
        self.layers = nn.Sequential(*layers, nn.Linear(widths[-1], 1))

    def learn_scale(self, rows: Tensor) -> None:
        """Take mean and standard deviation from the training rows; a constant column keeps scale one."""
        known = ~rows.isnan()
        count = known.sum(dim=0).clamp(min=1)
        self.mean.copy_(rows.nan_to_num(nan=0.0).sum(dim=0) / count)
        distance = torch.where(known, rows - self.mean, torch.zeros_like(rows))
        deviation = (distance.square().sum(dim=0) / count).sqrt()
        self.scale.copy_(torch.where(deviation > 0, deviation, torch.ones_like(deviation)))

    def forward(self, rows: Tensor) -> Tensor:
        # In float64 first: a large mean would eat a float32's digits before it is subtracted.
        standard = ((rows - self.mean) / self.scale).nan_to_num(nan=0.0)
        logits: Tensor = self.layers(standard.float()).squeeze(-1)
        return logits
