"""The head: it learns, it is the same again, and it has the dimension that was asked for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from airflow_provider_ragops.exceptions import ConfigurationError
from airflow_provider_ragops.workloads.rag.embedder import unit
from airflow_provider_ragops.workloads.rag.training.fit import contrast, fit
from airflow_provider_ragops.workloads.rag.training.parameters import DIMENSIONS, RetrieverParameters
from airflow_provider_ragops.workloads.training.parameters import TrainingParameters
from tests.unit.workloads.rag.retrievers import parameters

Vectors = np.ndarray[Any, Any]


def pairs_of(count: int = 1600) -> tuple[Vectors, Vectors]:
    """Questions that share half of their directions with their passage; the rest is noise."""
    source = np.random.default_rng(0)
    meaning = source.normal(size=(count, 384)) * (np.arange(384) < 40)
    noise = [source.normal(size=(count, 384)) * 1.2 * (np.arange(384) >= 40) for _ in range(2)]
    first, second = (unit((meaning + each).astype(np.float32)) for each in noise)
    return first, second


def mrr(head: Vectors, questions: Vectors, passages: Vectors) -> float:
    scores = unit(questions @ head.T) @ unit(passages @ head.T).T
    return float((1 / (scores >= scores.diagonal()[:, None]).sum(axis=1)).mean())


@pytest.mark.parametrize("dimension", DIMENSIONS)
def test_training_helps(dimension: int) -> None:
    """Each dimension: pairs that were not trained on are found better than by the base embeddings."""
    questions, passages = pairs_of()
    chosen = parameters(dimension=dimension, epochs=5, learning_rate=3e-3, batch_size=256)
    losses: list[float] = []
    head = fit(questions[:1500], passages[:1500], chosen, lambda _, values: losses.append(values["train_loss"]))
    assert (head.shape, head.dtype) == ((dimension, 384), np.float32)
    assert losses[-1] < losses[0]
    untrained = mrr(np.eye(384, dtype=np.float32), questions[1500:], passages[1500:])
    assert mrr(head, questions[1500:], passages[1500:]) > untrained + 0.05


def test_same_seed_same_head() -> None:
    """Equal pairs, parameters and seed give the same numbers to the last digit; another seed gives others."""
    questions, passages = pairs_of(100)
    first, again, other = (
        fit(questions, passages, parameters(dimension=512, seed=seed), lambda *_: None) for seed in (7, 7, 8)
    )
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_untrained_head_is_the_base_encoder() -> None:
    """At the start a large head changes no cosine by much, so a short training can't do harm."""
    questions, passages = pairs_of(100)
    tiny = parameters(dimension=768, epochs=1, learning_rate=1e-8)
    head = fit(questions, passages, tiny, lambda *_: None)
    assert unit(questions @ head.T) @ unit(passages @ head.T).T == pytest.approx(questions @ passages.T, abs=0.02)


def test_equal_passages_are_no_negatives() -> None:
    """A passage with two questions in a batch: neither is pushed away from it."""
    questions = torch.eye(3)
    passages = torch.stack([torch.eye(3)[0], torch.eye(3)[0], torch.eye(3)[2]])
    twice, apart = (contrast(questions, passages, torch.tensor(names)) for names in ([0, 0, 1], [0, 1, 2]))
    assert twice < apart
    assert torch.isfinite(twice)


def test_it_can_be_stopped() -> None:
    """The check is asked before each step."""

    def check() -> None:
        raise SystemExit(143)

    with pytest.raises(SystemExit):
        fit(*pairs_of(10), parameters(), lambda *_: None, check)


@pytest.mark.parametrize("value", [None, "", "0", 128, 513, "512.0", "many", True])
def test_other_dimensions_are_refused(value: Any) -> None:
    """The dimension is one of four, from a number or its text."""
    with pytest.raises(ConfigurationError, match=r"dimension: expected one of 256, 384, 512, 768; saw"):
        parameters(dimension=value)
    assert parameters(dimension="768").dimension == 768


def test_dimension_is_part_of_the_digest() -> None:
    """Two dimensions are two pieces of work, and neither is churn's: no version is reused for another."""
    digests = {parameters(dimension=each).digest for each in DIMENSIONS}
    plain = TrainingParameters(3, 32, 3e-4, 7).digest
    assert len(digests | {plain}) == 5
    assert isinstance(parameters(), RetrieverParameters)
