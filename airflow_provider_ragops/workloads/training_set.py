"""A training set as the pods see it: downloaded, digest compared, every column and label checked."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_provider_ragops import contract
from airflow_provider_ragops.exceptions import DataError

if TYPE_CHECKING:
    import pandas as pd

log = logging.getLogger(__name__)

RESERVED = (contract.COLUMN_ENTITY, contract.COLUMN_TIME, contract.COLUMN_LABEL, contract.COLUMN_SPLIT)
TRAIN, HELD_OUT = "train", "held_out"


@dataclass(frozen=True)
class TrainingSet:
    """Rows by split. Features are float64 and may be NaN; labels are 0 or 1."""

    uri: str
    digest: str
    features: tuple[str, ...]
    train: pd.DataFrame
    held_out: pd.DataFrame


def fetch(uri: str, digest: str, model: str, folder: Path) -> TrainingSet:
    """Download the parquet file at the MLflow artifact ``uri`` into ``folder`` and check it.

    :raises DataError: when the digest differs or the content can't be trained on.
    """
    import mlflow
    import pandas as pd

    path = mlflow.artifacts.download_artifacts(artifact_uri=uri, dst_path=str(folder))
    if (seen := contract.file_digest(path)) != digest:
        raise _refused(uri, f"content with digest {digest}", f"digest {seen}",
                       "Someone replaced the file: build the training set again.")
    checked = check(pd.read_parquet(path), uri=uri, digest=digest, model=model)
    log.info("training set %s (digest %s): %d rows to train on, %d held out, features %s",
             uri, digest, len(checked.train), len(checked.held_out), ", ".join(checked.features))
    return checked


def check(frame: pd.DataFrame, *, uri: str, digest: str, model: str) -> TrainingSet:
    """Refuse what can't be trained on, naming the column and the count; split the rest.

    :raises DataError: when rows, columns or labels are missing, or the split does not follow the rule.
    """
    if missing := [name for name in RESERVED if name not in frame.columns]:
        raise _refused(uri, f"the columns {', '.join(RESERVED)}", f"no {', '.join(missing)}")
    if frame.empty:
        raise _refused(uri, "rows", "an empty file")
    features = _features(frame, uri)
    _check_labels(frame, uri)
    _check_split(frame, uri, model)
    frame = frame.astype(dict.fromkeys(features, "float64"))
    train, held_out = (frame[frame[contract.COLUMN_SPLIT] == side] for side in (TRAIN, HELD_OUT))
    _check_sides(train, held_out, features, uri)
    return TrainingSet(uri, digest, features, train, held_out)


def _features(frame: pd.DataFrame, uri: str) -> tuple[str, ...]:
    import numpy as np
    from pandas.api.types import is_numeric_dtype

    features = tuple(name for name in frame.columns if name not in RESERVED)
    if not features:
        raise _refused(uri, f"feature columns besides {', '.join(RESERVED)}", "none")
    for name in features:
        if not is_numeric_dtype(frame[name].dtype):
            raise _refused(uri, f"numbers in column {name!r}", f"type {frame[name].dtype}")
        if count := int(np.isinf(frame[name].to_numpy(dtype="float64", na_value=np.nan)).sum()):
            raise _refused(uri, f"finite numbers or NaN in column {name!r}", f"{count} infinite values")
    return features


def _check_labels(frame: pd.DataFrame, uri: str) -> None:
    label = frame[contract.COLUMN_LABEL]
    if count := int(label.isna().sum()):
        raise _refused(uri, f"a label 0 or 1 in every row of {contract.COLUMN_LABEL!r}", f"{count} NaN labels")
    if strange := sorted(set(label.unique()) - {0, 1}):
        raise _refused(uri, f"labels 0 or 1 in {contract.COLUMN_LABEL!r}", f"labels {strange[:5]}")


def _check_split(frame: pd.DataFrame, uri: str, model: str) -> None:
    # A row on the wrong side would let a model be judged on what it was trained on: worth hashing every entity.
    entities = frame[contract.COLUMN_ENTITY]
    sides = {entity: contract.split_of(model, str(entity)) for entity in entities.unique()}
    if count := int((entities.map(sides) != frame[contract.COLUMN_SPLIT]).sum()):
        raise _refused(uri, f"the split of model {model} (split id {contract.split_id(model)})",
                       f"{count} rows on another side")


def _check_sides(train: pd.DataFrame, held_out: pd.DataFrame, features: tuple[str, ...], uri: str) -> None:
    for side, rows in ((TRAIN, train), (HELD_OUT, held_out)):
        if rows.empty:
            raise _refused(uri, f"rows in split {side!r}", "none")
        if rows[contract.COLUMN_LABEL].nunique() < 2:
            raise _refused(uri, f"both labels in split {side!r}",
                           f"only label {int(rows[contract.COLUMN_LABEL].iloc[0])} in {len(rows)} rows")
    if empty := [name for name in features if train[name].isna().all()]:
        raise _refused(uri, "a value in every feature column", f"nothing but NaN in {', '.join(empty)}")


def _refused(uri: str, expected: str, seen: str, action: str | None = None) -> DataError:
    return DataError(f"training set {uri}", expected=expected, seen=seen,
                     action=action or "Correct the training set and build it again.")
