"""Evaluations for the gate's tests: rows with a known signal, and metrics that follow from them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from airflow_provider_ragops.promotion.evaluation import Evaluation, JudgedVersion, Predictions
from airflow_provider_ragops.promotion.ranking import auc

USERS, ROWS_PER_USER = 300, 3


def predictions(noise: float = 0.0, champion: bool = True, users: int = USERS) -> Predictions:
    """Rows of users; the champion scores well (AUC about 0.85), the candidate the same plus noise."""
    random = np.random.default_rng(7)
    names = np.repeat(np.arange(users), ROWS_PER_USER)
    labels = (random.random(len(names)) < 0.4).astype(np.int64)
    score = random.normal(size=len(names)) + 1.5 * labels
    candidate = score + random.normal(scale=noise or 1e-12, size=len(names)) if noise else score
    return Predictions(names, labels, candidate, score if champion else np.full(len(names), np.nan))


def measured(version: str, rows: Predictions, scores: Any, run_id: str = "") -> dict[str, Any]:
    return {
        "version": version, "run_id": run_id or f"run-of-{version}", "split_id": "s1", "rows": len(rows.labels),
        "auc": auc(rows.labels, scores), "log_loss": 0.4, "brier": 0.1,
    }  # fmt: skip


def evaluation(rows: Predictions | None = None, champion: bool = True, **changes: Any) -> Evaluation:
    """A complete evaluation of candidate 2 against champion 1 (or none); ``changes`` are fields of Evaluation."""
    rows = rows or predictions(champion=champion)
    candidate, judged = (
        JudgedVersion(version, f"run-of-{version}", True, "s1", None, measured(version, rows, scores))
        for version, scores in (("2", rows.candidate), ("1", rows.champion))
    )
    found = Evaluation("run-1", True, candidate, judged, rows, "1")
    return replace(replace(found, champion=None, measured_champion=None) if not champion else found, **changes)


def with_measured(judged: JudgedVersion, /, **changes: Any) -> JudgedVersion:
    return replace(judged, measured={**judged.measured, **changes})
