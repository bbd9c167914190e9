from __future__ import annotations

import pytest
import torch

from airflow_provider_ragops.workloads import training_set
from airflow_provider_ragops.workloads.training import fit as fit_module
from airflow_provider_ragops.workloads.training.fit import fit
from airflow_provider_ragops.workloads.training.parameters import TrainingParameters
from tests.unit.workloads.training_sets import MODEL, rows

Reports = list[tuple[int, dict[str, float]]]


def fitted(seed: int = 7, epochs: int = 4) -> tuple[Reports, dict[str, torch.Tensor]]:
    data = training_set.check(rows(nan_share=0.05), uri="u", digest="d", model=MODEL)
    reports: Reports = []
    network = fit(data, TrainingParameters(epochs, 32, 0.01, seed), lambda *report: reports.append(report))
    return reports, network.state_dict()


def test_same_seed_gives_the_same_numbers_to_the_last_digit() -> None:
    """Equal data, parameters and seed: every metric of every epoch and every weight are bit for bit the same."""
    (first, weights), (second, other_weights) = fitted(), fitted()
    assert first == second
    assert all(torch.equal(weights[name], other_weights[name]) for name in weights)


def test_seed_chooses_the_weights() -> None:
    """Another seed begins with other weights: otherwise the test above would prove nothing."""
    fit_module.prepare(7)
    first = torch.rand(4)
    fit_module.prepare(8)
    assert not torch.equal(first, torch.rand(4))


def test_seed_chooses_the_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """From equal weights, another seed takes the rows in another order."""
    prepare = fit_module.prepare
    monkeypatch.setattr(fit_module, "prepare", lambda _: prepare(0))
    assert fitted(seed=7)[0] != fitted(seed=8)[0]


def test_each_epoch_is_reported_and_something_is_learned() -> None:
    """Losses and held-out metrics come once per epoch, numbered from 1; the signal in the rows is found."""
    reports, _ = fitted(epochs=6)
    assert [epoch for epoch, _ in reports] == [1, 2, 3, 4, 5, 6]
    assert all(set(values) == {"train_loss", "val_auc", "val_log_loss"} for _, values in reports)
    assert reports[-1][1]["train_loss"] < reports[0][1]["train_loss"]
    assert reports[-1][1]["val_auc"] > 0.8
