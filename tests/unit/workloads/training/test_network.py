from __future__ import annotations

import pytest
import torch

from airflow_provider_ragops.workloads.training.network import Network

NAN = float("nan")


def scaled(rows: torch.Tensor) -> Network:
    torch.manual_seed(0)
    network = Network(rows.shape[1])
    network.learn_scale(rows)
    return network


def test_missing_value_counts_as_the_mean() -> None:
    """A NaN gives the same answer as the mean of the known training values."""
    network = scaled(torch.tensor([[1.0, 10.0], [3.0, NAN], [5.0, 30.0]], dtype=torch.float64))
    asked = torch.tensor([[NAN, NAN], [3.0, 20.0]], dtype=torch.float64)
    with torch.inference_mode():
        missing, mean = network(asked)
    assert missing.isfinite()
    assert missing == mean


def test_scale_does_not_matter() -> None:
    """Raw features on wildly different scales answer as standardised ones: nobody has to prepare them."""
    rows = torch.tensor([[0.0, 1.0], [1.0, 0.0], [2.0, 5.0]], dtype=torch.float64)
    scale, shift = torch.tensor([1e-3, 1e6], dtype=torch.float64), torch.tensor([1e9, -4.0], dtype=torch.float64)
    with torch.inference_mode():
        plain, stretched = scaled(rows)(rows), scaled(rows * scale + shift)(rows * scale + shift)
    assert torch.allclose(plain, stretched, atol=1e-4)


def test_constant_column_is_harmless() -> None:
    """A column without any spread does not divide by zero."""
    network = scaled(torch.full((4, 1), 3.0, dtype=torch.float64))
    with torch.inference_mode():
        assert network(torch.tensor([[3.0], [4.0]], dtype=torch.float64)).isfinite().all()


@pytest.mark.parametrize("count", [1, 5])
def test_one_logit_per_row(count: int) -> None:
    """The answer has one number per row, for a single row too."""
    assert Network(2)(torch.zeros(count, 2, dtype=torch.float64)).shape == (count,)
