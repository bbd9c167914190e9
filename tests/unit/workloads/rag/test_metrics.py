"""Reciprocal ranks and recall, against numbers computed by hand and against the definition."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from airflow_provider_ragops.workloads.rag.metrics import NAMES, reciprocal_ranks, summary


def test_by_hand() -> None:
    """Ranks 1, 2, 4 and 20 of four questions."""
    scores = np.zeros((4, 20), dtype=np.float32)
    scores[0, 3] = 1  # alone at the top
    scores[1, :2] = (2, 1)
    scores[2, :4] = (4, 3, 2, 1)
    ranks = reciprocal_ranks(scores, np.array([3, 1, 3, 19]))
    assert ranks.tolist() == [1, 1 / 2, 1 / 4, 1 / 20]  # of equal scores the last place counts
    assert summary(ranks) == pytest.approx(
        {"mrr": (1 + 0.5 + 0.25 + 0.05) / 4, "recall_at_1": 0.25, "recall_at_5": 0.75, "recall_at_10": 0.75}
    )


def test_no_questions() -> None:
    """Nothing was measured: no number, rather than a good one."""
    assert all(math.isnan(summary([])[name]) for name in NAMES)


@given(st.data(), st.integers(1, 30), st.integers(1, 6))
def test_properties(data: st.DataObject, passages: int, questions: int) -> None:
    """For any scores: ranks by counting, recall grows with depth, and a better score never lowers a metric."""
    elements = st.sampled_from([-1.0, 0.0, 0.25, 1.0])
    scores: Any = data.draw(arrays.arrays(np.float32, (questions, passages), elements=elements))
    own = np.array(data.draw(st.lists(st.integers(0, passages - 1), min_size=questions, max_size=questions)))
    ranks = reciprocal_ranks(scores, own)
    for row, place, rank in zip(scores, own, ranks, strict=True):
        better = sum(score >= row[place] for place_, score in enumerate(row) if place_ != place)
        assert rank == 1 / (better + 1)
    found = summary(ranks)
    assert found["recall_at_1"] <= found["recall_at_5"] <= found["recall_at_10"] <= 1
    assert found["recall_at_1"] <= found["mrr"] <= 1
    lifted = scores.copy()
    lifted[np.arange(questions), own] += 1
    assert all(summary(reciprocal_ranks(lifted, own))[name] >= found[name] for name in NAMES)
