"""What the training workload does for a retriever: embed once, fit, measure, build the store, log."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from airflow_provider_ragops import contract
from airflow_provider_ragops.workloads.process import StopCheck
from airflow_provider_ragops.workloads.rag import metrics, pairs
from airflow_provider_ragops.workloads.rag.training.parameters import RetrieverParameters
from airflow_provider_ragops.workloads.training.arguments import TrainingArguments
from airflow_provider_ragops.workloads.training.procedure import log_input

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from airflow_provider_ragops.workloads.rag.embedder import Embedder
    from airflow_provider_ragops.workloads.rag.pairs import PairSet
    from airflow_provider_ragops.workloads.rag.retriever import RagRetriever
    from airflow_provider_ragops.workloads.rag.store import Passage

log = logging.getLogger(__name__)

EXAMPLES = 2


def make(arguments: TrainingArguments, folder: Path, check: StopCheck) -> tuple[str, str]:
    """Make a retriever of the pairs and log it into the active run; returns the model's URI and digest."""
    from airflow_provider_ragops.workloads.rag.logged_model import log_model

    parameters = arguments.parameters
    if not isinstance(parameters, RetrieverParameters):
        raise TypeError(f"expected the parameters of a retriever, saw {parameters!r}")
    data = pairs.fetch(arguments.data_uri, arguments.data_digest, arguments.model, folder)
    log_input(data.uri, data.digest)
    retriever = build(data, parameters, check)
    check()
    return log_model(retriever, data.held_out[pairs.QUESTION].head(EXAMPLES).tolist())


def build(data: PairSet, parameters: RetrieverParameters, check: StopCheck = lambda: None) -> RagRetriever:
    """Train and put together, logging the metrics of the base encoder alone and of the retriever."""
    import mlflow

    from airflow_provider_ragops.workloads.rag.embedder import Embedder, unit
    from airflow_provider_ragops.workloads.rag.files import described
    from airflow_provider_ragops.workloads.rag.retriever import RagRetriever
    from airflow_provider_ragops.workloads.rag.store import PassageStore
    from airflow_provider_ragops.workloads.rag.training.fit import fit
    from airflow_provider_ragops.workloads.training.fit import prepare

    prepare(parameters.seed)  # the embeddings too are summed in one thread's order
    base = base_embedder()
    questions = base.base(data.frame[pairs.QUESTION].tolist(), check)
    passages = base.base([text_of(passage) for passage in data.passages], check)
    own = passage_places(data)
    sides = data.frame[contract.COLUMN_SPLIT]
    trained, held_out = ((sides == side).to_numpy() for side in (pairs.TRAIN, pairs.HELD_OUT))

    def report(epoch: int, values: dict[str, float]) -> None:
        log.info("epoch %d of %d: train_loss %.6f", epoch, parameters.epochs, values["train_loss"])
        mlflow.log_metrics(values, step=epoch)

    head = fit(questions[trained], passages[own[trained]], parameters, report, check)
    embedder = Embedder(base.tokenizer, base.encoder, head)
    store = PassageStore(data.passages, unit(passages @ head.T))
    _log_metrics("base_", metrics.reciprocal_ranks(questions[held_out] @ passages.T, own[held_out]))
    vectors = unit(questions[held_out] @ head.T)
    _log_metrics("", metrics.reciprocal_ranks(vectors @ store.vectors.T, own[held_out]))
    return RagRetriever(embedder, store, described(embedder, store))


def base_embedder() -> Embedder:
    """The image's encoder and tokenizer, with a head that changes nothing."""
    from airflow_provider_ragops.workloads.rag import encoder, files, tokenizer
    from airflow_provider_ragops.workloads.rag.embedder import Embedder

    loaded = tokenizer.load(encoder.model_folder() / files.TOKENIZER)
    return Embedder(loaded, encoder.base_encoder(), np.eye(encoder.WIDTH, dtype=np.float32))


def text_of(passage: Passage) -> str:
    """What of a passage is embedded."""
    return f"{passage.title}. {passage.text}"


def passage_places(data: PairSet) -> NDArray[np.int64]:
    """For each pair, the place of its passage among :attr:`PairSet.passages`."""
    places = {passage.id: place for place, passage in enumerate(data.passages)}
    return np.array([places[name] for name in data.frame[pairs.PASSAGE_ID]], dtype=np.int64)


def _log_metrics(prefix: str, ranks: NDArray[np.float64]) -> None:
    import mlflow

    values = {f"{prefix}{name}": value for name, value in metrics.summary(ranks).items()}
    log.info("held out: %s", ", ".join(f"{name} {value:.6f}" for name, value in values.items()))
    mlflow.log_metrics(values)
