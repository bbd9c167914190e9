"""What the evaluation pod left behind, read into one value that the gate can judge."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_provider_ragops import contract
from airflow_provider_ragops.contract import (
    ARTIFACT_EVALUATION,
    COLUMN_ENTITY,
    SLICE_PREFIX,
    TAG_COMPLETED,
    TAG_QUARANTINED,
    TAG_SPLIT_ID,
)
from airflow_provider_ragops.promotion.registry import VersionInfo

if TYPE_CHECKING:
    from numpy.typing import NDArray

_ROLES = ("candidate", "champion")
METRICS_FILE = f"{ARTIFACT_EVALUATION}/metrics.json"
PREDICTIONS_FILE = f"{ARTIFACT_EVALUATION}/predictions.parquet"


@dataclass(frozen=True)
class JudgedVersion:
    """One model version in an evaluation.

    ``run_id``, its training run, is its identity: a model that is deleted and made anew counts from 1 again.
    ``completed`` is True only where that run FINISHED and run and version carry the same completion marker.
    ``measured`` is its part of ``metrics.json``: version, run_id, split_id, rows, auc, log_loss, brier, error (why
    it could not be scored); empty where the evaluation did not measure it.
    """

    version: str
    run_id: str
    completed: bool
    split_id: str | None
    quarantined: str | None = None
    measured: Mapping[str, Any] = field(default_factory=dict)

    def metric(self, name: str) -> float:
        """The reported metric; NaN where it is missing, null or no number."""
        value = self.measured.get(name)
        return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else math.nan


@dataclass(frozen=True)
class Predictions:
    """The same held-out rows through both models: arrays of equal length.

    ``labels`` are 0 or 1; scores are probabilities; ``champion`` is all NaN where there is none. A user has
    several rows. ``slices`` holds the group of each row (text) by the name of the slice.
    """

    users: NDArray[Any]
    labels: NDArray[Any]
    candidate: NDArray[Any]
    champion: NDArray[Any]
    slices: Mapping[str, NDArray[Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class Evaluation:
    """All that the gate looks at.

    ``champion`` is the one that the caller asked about, ``measured_champion`` the version that the evaluation
    says it measured. ``predictions`` is None where the evaluation left none. ``served`` is the version that the
    ledger says was last released to the target; None where it says nothing or was not asked.
    """

    run_id: str
    completed: bool
    candidate: JudgedVersion
    champion: JudgedVersion | None
    predictions: Predictions | None
    measured_champion: str | None = None
    served: str | None = None


def is_completed(run: Any, marker: str | None) -> bool:
    """:func:`contract.is_completed` on a run of MLflow's client."""
    return contract.is_completed(marker, run.info.status, run.data.tags)


def judged_version(info: VersionInfo, run: Any, measured: Mapping[str, Any]) -> JudgedVersion:
    """Join what the registry, the training run and the evaluation say about one version."""
    return JudgedVersion(
        version=info.version,
        run_id=info.run_id,
        completed=is_completed(run, info.tags.get(TAG_COMPLETED)),
        split_id=info.tags.get(TAG_SPLIT_ID),
        quarantined=info.tags.get(TAG_QUARANTINED),
        measured=measured,
    )


def read_metrics(file: Path | None) -> tuple[dict[str, Any], dict[str, Any]]:
    """What ``metrics.json`` says about candidate and champion; empty where it says nothing readable."""
    try:
        content = json.loads(file.read_text()) if file else {}
    except ValueError:
        content = {}
    parts: list[Any] = [content.get(role) if isinstance(content, dict) else {} for role in _ROLES]
    candidate, champion = (part if isinstance(part, dict) else {} for part in parts)
    return candidate, champion


def read_predictions(file: Path | None) -> Predictions | None:
    """The rows of ``predictions.parquet``; None where there is no file or a column is missing."""
    import pyarrow.parquet

    if file is None:
        return None
    columns = (COLUMN_ENTITY, "label", "candidate", "champion")
    try:
        table = pyarrow.parquet.read_table(file)
    except pyarrow.ArrowInvalid:
        return None
    if not set(columns) <= set(table.column_names):
        return None
    # A column without any value has Arrow's null type: the cast makes it a column of NaN.
    labels, candidate, champion = (table[name].cast(pyarrow.float64()).to_numpy() for name in columns[1:])
    return Predictions(
        table[COLUMN_ENTITY].to_numpy(), labels, candidate, champion,
        slices={
            name.removeprefix(SLICE_PREFIX): table[name].cast(pyarrow.string()).fill_null("missing").to_numpy()
            for name in table.column_names if name.startswith(SLICE_PREFIX)
        },
    )  # fmt: skip
