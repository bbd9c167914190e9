"""Small retrievers over real passages: the policy corpus, embedded with the real encoder."""

from __future__ import annotations

from datetime import date
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
from rag import partitions, policies

from airflow_provider_ragops.features.pair_set import split_pairs
from airflow_provider_ragops.workloads.rag import pairs
from airflow_provider_ragops.workloads.rag.embedder import Embedder, unit
from airflow_provider_ragops.workloads.rag.files import described
from airflow_provider_ragops.workloads.rag.pairs import PairSet
from airflow_provider_ragops.workloads.rag.retriever import RagRetriever
from airflow_provider_ragops.workloads.rag.store import PassageStore
from airflow_provider_ragops.workloads.rag.training.parameters import RetrieverParameters
from airflow_provider_ragops.workloads.rag.training.procedure import base_embedder, text_of

MODEL = "rag-retriever"
DAY = date(2026, 11, 29)


def frame(model: str = MODEL) -> pd.DataFrame:
    """The policy corpus as a training set: 126 questions about 63 passages."""
    rows = pd.DataFrame(partitions.rows_of(policies.pairs(), DAY))
    return split_pairs(rows, model)


@cache
def pair_set() -> PairSet:
    return pairs.check(frame(), uri="runs:/r/t.parquet", digest="d1", model=MODEL)


def parameters(**changes: Any) -> RetrieverParameters:
    chosen = {"epochs": 3, "batch_size": 32, "learning_rate": 3e-4, "seed": 7, "dimension": 256}
    return RetrieverParameters.parse(chosen | changes)


@cache
def base_vectors() -> np.ndarray:
    """Base embeddings of the passages, computed once a session."""
    return base_embedder().base([text_of(passage) for passage in pair_set().passages])


@cache
def retriever(dimension: int = 512, seed: int = 0) -> RagRetriever:
    """An untrained one: the identity and random rows. Shared: no test may change it."""
    random = np.random.default_rng(seed).normal(scale=0.05, size=(768, 384))
    head = (np.eye(768, 384) + random)[:dimension].astype(np.float32)
    base = base_embedder()
    embedder = Embedder(base.tokenizer, base.encoder, head)
    store = PassageStore(pair_set().passages, unit(base_vectors() @ head.T))
    return RagRetriever(embedder, store, described(embedder, store))
