"""How a retriever is measured: the reciprocal rank of each held-out question's passage among all passages.

Both versions search the *same* passages, those of the candidate's partition. A version's own vectors are taken where
it holds the same text, the others are embedded with its embedder: so the comparison is of the embedders, and not of
which version's passages are newer.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from airflow_provider_ragops import contract
from airflow_provider_ragops.contract import SLICE_PREFIX
from airflow_provider_ragops.exceptions import DataError
from airflow_provider_ragops.workloads.evaluation.slices import MOST_GROUPS
from airflow_provider_ragops.workloads.rag import metrics, pairs
from airflow_provider_ragops.workloads.rag.manifest import KIND
from airflow_provider_ragops.workloads.rag.training.procedure import passage_places, text_of

if TYPE_CHECKING:
    import pandas as pd
    from mlflow.pyfunc import PyFuncModel
    from numpy.typing import NDArray

    from airflow_provider_ragops.workloads.evaluation.pinned import Pinned
    from airflow_provider_ragops.workloads.evaluation.slices import Slice
    from airflow_provider_ragops.workloads.metrics import Floats
    from airflow_provider_ragops.workloads.rag.pairs import PairSet
    from airflow_provider_ragops.workloads.rag.retriever import RagRetriever

log = logging.getLogger(__name__)


class Retrieval:
    """A :class:`~airflow_provider_ragops.workloads.evaluation.procedure.Measurement`."""

    metrics: tuple[str, ...] = metrics.NAMES

    def fetch(self, uri: str, digest: str, model: str, folder: Path) -> PairSet:
        return pairs.fetch(uri, digest, model, folder)

    def groups(self, wanted: tuple[Slice, ...], data: PairSet) -> dict[str, list[str]]:
        """:raises DataError: when a slice's column is missing, is to be cut by quantiles, or has too many values."""
        return {f"{SLICE_PREFIX}{each.name}": _groups(each, data.held_out) for each in wanted}

    def rows(self, data: PairSet) -> pd.DataFrame:
        """A module stands where a user does: its questions are alike, so the gate draws modules. Labels are all 1."""
        rows = data.held_out
        return rows[[contract.COLUMN_TIME]].assign(**{contract.COLUMN_ENTITY: rows[pairs.MODULE], "label": 1})

    def score(self, model: PyFuncModel, data: PairSet, pinned: Pinned) -> Floats:
        """The reciprocal rank of each held-out question's passage.

        :raises DataError: when the version is no retriever.
        """
        retriever = _retriever(model, pinned)
        questions = retriever.embed(data.held_out[pairs.QUESTION].tolist())
        own = passage_places(data)[(data.frame[contract.COLUMN_SPLIT] == pairs.HELD_OUT).to_numpy()]
        return metrics.reciprocal_ranks(questions @ passage_vectors(retriever, data).T, own)

    def judge(self, pinned: Pinned, data: PairSet, scores: Floats) -> Mapping[str, Any]:  # noqa: ARG002
        found = metrics.summary(scores)
        log.info("version %s: %s", pinned.version, ", ".join(f"{name} {value:.6f}" for name, value in found.items()))
        told = {"version": pinned.version, "run_id": pinned.run_id, "split_id": pinned.split_id, "rows": len(scores)}
        return {**told, **found, "error": None}


def passage_vectors(retriever: RagRetriever, data: PairSet) -> NDArray[np.float32]:
    """The version's vectors of the data's passages, in their order."""
    held = dict(zip(map(text_of, retriever.store.passages), retriever.store.vectors, strict=True))
    texts = [text_of(passage) for passage in data.passages]
    new = sorted(set(texts) - held.keys())
    log.info("%d of %d passages are the version's own, %d are embedded", len(texts) - len(new), len(texts), len(new))
    held |= dict(zip(new, retriever.embed(new), strict=True)) if new else {}
    return np.stack([held[text] for text in texts])


def _retriever(model: PyFuncModel, pinned: Pinned) -> RagRetriever:
    kind = dict(model.metadata.metadata or {}).get(contract.TAG_KIND)
    if kind != KIND:
        raise DataError(
            pinned.subject, expected=f"a model of kind {KIND!r}", seen=f"kind {kind!r}",
            action="Evaluate this version with the workload of its own kind.",
        )
    found: RagRetriever = model.unwrap_python_model().retriever
    return found


def _groups(wanted: Slice, rows: pd.DataFrame) -> list[str]:
    known = sorted(set(rows.columns) - {contract.COLUMN_SPLIT, contract.COLUMN_TIME, *pairs.TEXTS})
    if wanted.groups is not None or wanted.column not in known:
        raise DataError(
            f"slice {wanted.name!r}", expected=f"one of the columns {', '.join(known)}, whole",
            seen="no such column" if wanted.column not in known else "groups by quantiles",
            action="Correct the slices of the evaluation, for example 'library'.",
        )
    values = rows[wanted.column].fillna("missing").astype(str)
    if values.nunique() > MOST_GROUPS:
        raise DataError(
            f"slice {wanted.name!r}", expected=f"at most {MOST_GROUPS} different values", seen=str(values.nunique()),
            action="Choose a column with fewer values.",
        )
    return [str(value) for value in values]
