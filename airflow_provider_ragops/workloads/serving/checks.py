"""What must agree before a pod is ready: pinned, loaded and key version; a RAG model's parts and its metadata."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_provider_ragops.exceptions import EmbeddingDimensionError, RegistryError, TokenizerError

if TYPE_CHECKING:
    from airflow_provider_ragops.workloads.serving.questions import Retriever
    from airflow_provider_ragops.workloads.serving.settings import Settings

# MLmodel metadata of a RAG model.
KIND = "ragops.kind"
RAG_KIND = "rag-retriever"
DIMENSION = "dimension"
VOCABULARY = "vocabulary_size"
FINGERPRINT = "embedder_fingerprint"

RELEASE_ANOTHER = "The version can't be served: train another one and release that."


def metadata_of(pyfunc: Any) -> dict[str, Any]:
    return dict(getattr(pyfunc.metadata, "metadata", None) or {})


def retriever_of(pyfunc: Any) -> Retriever | None:
    """The retriever of a RAG model; None for every other model."""
    if metadata_of(pyfunc).get(KIND) != RAG_KIND:
        return None
    found: Retriever = pyfunc.unwrap_python_model().retriever
    return found


def check_files(settings: Settings, folder: Path) -> None:
    """MLflow writes beside a downloaded model which version it is.

    :raises RegistryError: where that is not the pinned one.
    """
    note = folder / "registered_model_meta"
    if not note.is_file():
        return
    import yaml

    found = yaml.safe_load(note.read_text()) or {}
    seen = (str(found.get("model_name")), str(found.get("model_version")))
    if seen != (settings.model_name, settings.model_version):
        raise RegistryError(
            settings.subject, expected="the files of that version", seen=f"those of {seen[0]} version {seen[1]}",
            action="Clear the pod's model cache and start the pod again.",
        )


def check_retriever(subject: str, retriever: Retriever, metadata: dict[str, Any]) -> dict[str, str]:
    """Compare tokenizer, vector store and embedder with what was registered; returns what agreed.

    :raises EmbeddingDimensionError: the store's or the embedder's dimension is another one.
    :raises TokenizerError: the tokenizer's vocabulary is another one.
    """
    retriever.check()  # the parts among themselves, as the model knows them
    _same(EmbeddingDimensionError, subject, DIMENSION, metadata, retriever.dimension)
    _same(TokenizerError, subject, VOCABULARY, metadata, retriever.vocabulary_size)
    _same(TokenizerError, subject, FINGERPRINT, metadata, retriever.fingerprint)
    return {"dimension": str(retriever.dimension), "vocabulary_size": str(retriever.vocabulary_size),
            "embedder_fingerprint": retriever.fingerprint}


def _same(
    kind: type[EmbeddingDimensionError | TokenizerError], subject: str, name: str, metadata: dict[str, Any], seen: Any
) -> None:
    if str(metadata.get(name)) != str(seen):
        raise kind(
            subject, expected=f"{name} {metadata.get(name)!r}, as in the model's metadata", seen=f"{seen!r}",
            action=RELEASE_ANOTHER,
        )
