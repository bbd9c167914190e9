"""The files of a version: tensors and text only, nothing that runs when it is read."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_provider_ragops.exceptions import EmbeddingDimensionError, ModelFilesError
from airflow_provider_ragops.workloads.rag import manifest, tokenizer
from airflow_provider_ragops.workloads.rag.embedder import Embedder
from airflow_provider_ragops.workloads.rag.retriever import RagRetriever
from airflow_provider_ragops.workloads.rag.store import Passage, PassageStore

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MANIFEST, TOKENIZER, PASSAGES, TENSORS = "retriever.json", "tokenizer.json", "passages.json", "tensors.safetensors"
_HEAD, _VECTORS = "head", "vectors"


def described(embedder: Embedder, store: PassageStore) -> manifest.Manifest:
    """The manifest of these parts."""
    return manifest.Manifest(
        dimension=embedder.dimension, vocabulary_size=embedder.tokenizer.vocabulary_size,
        embedder_fingerprint=embedder.fingerprint, base_encoder=embedder.encoder.fingerprint,
        tokenizer=embedder.tokenizer.digest, passages=len(store.passages),
    )  # fmt: skip


def save(retriever: RagRetriever, tokenizer_file: Path, folder: Path) -> None:
    """Write what :func:`load` reads; ``tokenizer_file`` is where the embedder's tokenizer came from."""
    import numpy as np
    from safetensors.numpy import save_file

    retriever.manifest.write(folder / MANIFEST)
    shutil.copyfile(tokenizer_file, folder / TOKENIZER)
    passages = [asdict(passage) for passage in retriever.store.passages]
    (folder / PASSAGES).write_text(json.dumps(passages, ensure_ascii=False), encoding="utf-8")
    # safetensors writes the memory as it lies: a transposed view would come back as other numbers.
    tensors = {_HEAD: retriever.embedder.head, _VECTORS: retriever.store.vectors}
    save_file({name: np.ascontiguousarray(each) for name, each in tensors.items()}, folder / TENSORS)


def load(folder: Path) -> RagRetriever:
    """The retriever, checked.

    :raises ModelFilesError: when a file is missing, cut short, or not of the same version as the others.
    :raises TokenizerError, EmbeddingDimensionError, EncoderError: see :meth:`RagRetriever.check`.
    """
    from airflow_provider_ragops.workloads.rag.encoder import base_encoder

    told = manifest.read(folder / MANIFEST)
    loaded = tokenizer.load(folder / TOKENIZER)
    passages = _passages(folder / PASSAGES)
    head, vectors = _tensors(folder / TENSORS)
    if len(passages) != told.passages:
        raise _damaged(PASSAGES, f"{told.passages} passages", f"{len(passages)}")
    found = RagRetriever(Embedder(loaded, base_encoder(), head), PassageStore(passages, vectors), told)
    found.check()
    return found


def _passages(path: Path) -> tuple[Passage, ...]:
    try:
        return tuple(Passage(**each) for each in json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise _damaged(path.name, "passages with id, title and text", f"{type(error).__name__}: {error}") from error


def _tensors(path: Path) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        found = load_file(path)
        head, vectors = found[_HEAD], found[_VECTORS]
    except (SafetensorError, OSError, KeyError) as error:
        raise _damaged(path.name, "the tensors head and vectors", f"{type(error).__name__}: {error}") from error
    if {head.dtype.str, vectors.dtype.str} != {"<f4"} or (head.ndim, vectors.ndim) != (2, 2):
        seen = f"{head.dtype} {head.shape}, {vectors.dtype} {vectors.shape}"
        raise _damaged(path.name, "two matrices of float32", seen)
    if head.shape[0] != vectors.shape[1]:
        raise EmbeddingDimensionError(
            "vectors of the store", expected=f"dimension {head.shape[0]}, as the head gives",
            seen=str(vectors.shape[1]),
            action="The vectors are another version's: download the files again, or train another version.",
        )
    return head, vectors


def _damaged(name: str, expected: str, seen: str) -> ModelFilesError:
    return ModelFilesError(
        f"model file {name}", expected=expected, seen=seen[:300],
        action="The version's files are damaged: download them again, or train another version.",
    )
