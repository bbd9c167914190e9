from __future__ import annotations

import time

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from airflow_provider_ragops.promotion.ranking import auc, auc_differences, rank


@pytest.mark.parametrize("decimals", [0, 1, 12], ids=["many ties", "ties", "no ties"])
def test_auc_equals_the_reference(decimals: int) -> None:
    """Ties count half, as in scikit-learn."""
    random = np.random.default_rng(3)
    labels = random.integers(0, 2, 2000)
    scores = np.round(random.normal(size=2000) + labels, decimals)

    assert auc(labels, scores) == pytest.approx(roc_auc_score(labels, scores), abs=1e-12)


def test_weights_are_repetitions() -> None:
    """A row of weight three counts like three equal rows: the bootstrap's shortcut is the real thing."""
    random = np.random.default_rng(4)
    labels, scores = random.integers(0, 2, 500), np.round(random.normal(size=500), 1)
    times = random.integers(0, 4, 500)

    weighted = rank(labels, scores).auc(times[np.newaxis].astype(np.float64))[0]

    assert weighted == pytest.approx(roc_auc_score(np.repeat(labels, times), np.repeat(scores, times)), abs=1e-12)


def test_single_class_has_no_auc() -> None:
    """An AUC of one class is NaN, never a number that looks good."""
    assert np.isnan(auc(np.ones(10), np.arange(10.0)))


def test_users_are_resampled_not_rows() -> None:
    """Repeating each user's rows adds no knowledge: the interval must not become narrower."""
    random = np.random.default_rng(5)
    users = np.arange(400)
    labels = random.integers(0, 2, 400)
    candidate, champion = random.normal(size=400) + labels, random.normal(size=400) + labels

    def spread(times: int) -> float:
        arrays = (np.repeat(each, times) for each in (users, labels, candidate, champion))
        return float(auc_differences(*arrays, samples=300, seed=1).std())

    assert spread(9) == pytest.approx(spread(1))


def test_full_size_takes_seconds() -> None:
    """All customers of CDNOW, 23,000 rows and 500 resamples: within the gate's budget of ten seconds."""
    random = np.random.default_rng(6)
    users, labels = np.repeat(np.arange(7667), 3)[:23_000], random.integers(0, 2, 23_000)
    begin = time.perf_counter()

    found = auc_differences(
        users, labels, random.normal(size=23_000), random.normal(size=23_000), samples=500, seed=1
    )

    assert time.perf_counter() - begin < 10
    assert np.isfinite(found).all()
    assert len(found) == 500
