from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from airflow_provider_ragops.promotion.evaluation import is_completed, judged_version, read_metrics, read_predictions
from airflow_provider_ragops.promotion.registry import VersionInfo


def _run(status: str, **tags: str) -> SimpleNamespace:
    return SimpleNamespace(info=SimpleNamespace(status=status), data=SimpleNamespace(tags=tags))


@pytest.mark.parametrize(
    ("run", "marker", "completed"),
    [
        (_run("FINISHED", **{"ragops.completed": "a1"}), "a1", True),
        (_run("FINISHED", **{"ragops.completed": "a1"}), "a2", False),
        (_run("FINISHED"), "a1", False),
        (_run("FINISHED"), None, False),
        (_run("RUNNING", **{"ragops.completed": "a1"}), "a1", False),
        (_run("FAILED", **{"ragops.completed": "a1"}), "a1", False),
    ],
)
def test_completion_needs_run_and_marker(run: SimpleNamespace, marker: str | None, completed: bool) -> None:
    """K1: only a FINISHED run with the marker of the same attempt is proof."""
    assert is_completed(run, marker) is completed


def test_a_version_is_joined_from_registry_run_and_evaluation() -> None:
    """Split and quarantine come from the version's tags, metrics from the evaluation; no number is NaN."""
    info = VersionInfo("M", "3", "r", {"ragops.completed": "a", "ragops.split_id": "s", "ragops.quarantined": "bad"})

    found = judged_version(info, _run("FINISHED", **{"ragops.completed": "a"}), {"auc": 1, "brier": "x", "rows": True})

    assert (found.version, found.completed, found.split_id, found.quarantined) == ("3", True, "s", "bad")
    assert found.metric("auc") == 1.0
    assert np.isnan([found.metric(name) for name in ("brier", "rows", "log_loss")]).all()


@pytest.mark.parametrize("content", ["", "[1, 2]", '{"candidate": 3, "champion": "x"}', "{"])
def test_unreadable_metrics_are_no_metrics(content: str, tmp_path: Path) -> None:
    """M4: a truncated or foreign metrics file says nothing, which the gate refuses."""
    file = tmp_path / "metrics.json"
    file.write_text(content)

    assert read_metrics(file) == ({}, {})
    assert read_metrics(None) == ({}, {})


def _write(file: Path, **columns: Any) -> None:
    import pandas as pd

    pd.DataFrame(columns).to_parquet(file)


def test_predictions_without_champion_are_nan(tmp_path: Path) -> None:
    """A first model's file has an empty champion column; it is read as NaN."""
    file = tmp_path / "p.parquet"
    _write(file, user_id=[1, 2], label=[0, 1], candidate=[0.1, 0.9], champion=[None, None])

    found = read_predictions(file)

    assert found
    assert found.candidate.tolist() == [0.1, 0.9]
    assert np.isnan(found.champion).all()


def test_damaged_predictions_are_none(tmp_path: Path) -> None:
    """M4: a missing, truncated or foreign file is no evaluation, and no crash either."""
    whole, cut, foreign = (tmp_path / name for name in ("whole", "cut", "foreign"))
    _write(whole, user_id=range(99), label=0, candidate=0.5, champion=0.5)
    cut.write_bytes(whole.read_bytes()[:200])
    _write(foreign, user_id=[1])

    assert read_predictions(whole)
    assert [read_predictions(file) for file in (None, cut, foreign)] == [None, None, None]
