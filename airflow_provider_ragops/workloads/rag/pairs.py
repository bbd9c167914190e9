"""Question-passage pairs as the pods see them: downloaded, digest compared, every column and the split checked."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_provider_ragops import contract
from airflow_provider_ragops.exceptions import DataError
from airflow_provider_ragops.workloads.rag.store import Passage

if TYPE_CHECKING:
    import pandas as pd

log = logging.getLogger(__name__)

PASSAGE_ID, TITLE, PASSAGE, QUESTION, MODULE = "passage_id", "title", "passage", "question", "module"
TEXTS = (PASSAGE_ID, TITLE, PASSAGE, QUESTION, MODULE)
REQUIRED = (*TEXTS, contract.COLUMN_TIME, contract.COLUMN_SPLIT)
TRAIN, HELD_OUT = "train", "held_out"


@dataclass(frozen=True)
class PairSet:
    """Pairs by split. A module is on one side whole, so no held-out passage's question was trained on."""

    uri: str
    digest: str
    frame: pd.DataFrame

    @cached_property
    def train(self) -> pd.DataFrame:
        return self.frame[self.frame[contract.COLUMN_SPLIT] == TRAIN]

    @cached_property
    def held_out(self) -> pd.DataFrame:
        return self.frame[self.frame[contract.COLUMN_SPLIT] == HELD_OUT]

    @cached_property
    def passages(self) -> tuple[Passage, ...]:
        """Every passage once, of both sides: a held-out question is searched among all of them."""
        rows = self.frame.drop_duplicates(PASSAGE_ID)[[PASSAGE_ID, TITLE, PASSAGE]]
        return tuple(Passage(*row) for row in rows.itertuples(index=False))


def fetch(uri: str, digest: str, model: str, folder: Path) -> PairSet:
    """Download the parquet file at the MLflow artifact ``uri`` into ``folder`` and check it.

    :raises DataError: when the digest differs or the content can't be trained on.
    """
    import mlflow
    import pandas as pd

    path = mlflow.artifacts.download_artifacts(artifact_uri=uri, dst_path=str(folder))
    if (seen := contract.file_digest(path)) != digest:
        raise _refused(uri, f"content with digest {digest}", f"digest {seen}",
                       "Someone replaced the file: build the training set again.")
    found = check(pd.read_parquet(path), uri=uri, digest=digest, model=model)
    log.info("pairs %s (digest %s): %d to train on, %d held out, %d passages",
             uri, digest, len(found.train), len(found.held_out), len(found.passages))
    return found


def check(frame: pd.DataFrame, *, uri: str, digest: str, model: str) -> PairSet:
    """:raises DataError: when columns or texts are missing, a passage has two texts, or the split breaks the rule."""
    if missing := [name for name in REQUIRED if name not in frame.columns]:
        raise _refused(uri, f"the columns {', '.join(REQUIRED)}", f"no {', '.join(missing)}")
    for name in TEXTS:
        texts = frame[name].map(lambda value: isinstance(value, str) and bool(value.strip()))
        if count := int((~texts.astype(bool)).sum()):
            raise _refused(uri, f"a text in every row of {name!r}", f"{count} rows without")
    different = frame[[PASSAGE_ID, TITLE, PASSAGE, MODULE]].drop_duplicates()[PASSAGE_ID]
    if count := int(different.duplicated().sum()):
        raise _refused(uri, "one title, text and module for each passage id", f"{count} ids with several")
    sides = {module: contract.split_of(model, module) for module in frame[MODULE].unique()}
    if count := int((frame[MODULE].map(sides) != frame[contract.COLUMN_SPLIT]).sum()):
        raise _refused(uri, f"the split of model {model} by module (split id {contract.split_id(model)})",
                       f"{count} rows on another side")
    found = PairSet(uri, digest, frame.reset_index(drop=True))
    for side, rows in ((TRAIN, found.train), (HELD_OUT, found.held_out)):
        if rows[PASSAGE_ID].nunique() < 2:
            raise _refused(uri, f"two passages or more in split {side!r}", f"{rows[PASSAGE_ID].nunique()}")
    return found


def _refused(uri: str, expected: str, seen: str, action: str | None = None) -> DataError:
    return DataError(f"pairs {uri}", expected=expected, seen=seen,
                     action=action or "Correct the pairs and build the training set again.")
