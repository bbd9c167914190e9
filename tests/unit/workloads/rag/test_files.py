"""A version's files: what is written is read back, and what is damaged or mixed is named."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from airflow_provider_ragops.exceptions import (
    EmbeddingDimensionError,
    EncoderError,
    ModelFilesError,
    RagopsError,
    TokenizerError,
)
from airflow_provider_ragops.workloads.rag import encoder, files
from tests.unit.workloads.rag.retrievers import retriever
from tests.unit.workloads.rag.test_encoder import other_tokenizer

QUESTION = "How do I return a present and when does it expire?"


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("saved")
    files.save(retriever(512), encoder.model_folder() / files.TOKENIZER, folder)
    return folder


@pytest.fixture
def folder(saved: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(saved, tmp_path / "files"))


def test_what_is_saved_is_loaded(folder: Path) -> None:
    """The loaded retriever has the same parts and gives the same answer."""
    loaded, original = files.load(folder), retriever(512)
    assert loaded.manifest == original.manifest
    assert loaded.store.passages == original.store.passages
    assert np.array_equal(loaded.store.vectors, original.store.vectors)
    assert loaded.answer(QUESTION) == original.answer(QUESTION)


def _manifest(folder: Path, **changes: object) -> None:
    path = folder / files.MANIFEST
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def _tensors(folder: Path, **changes: np.ndarray) -> None:
    save_file(load_file(folder / files.TENSORS) | changes, folder / files.TENSORS)


def _cut(name: str) -> Callable[[Path], object]:
    def cut(folder: Path) -> None:
        content = (folder / name).read_bytes()
        (folder / name).write_bytes(content[: len(content) // 2])

    return cut


def _removed(name: str) -> Callable[[Path], object]:
    return lambda folder: (folder / name).unlink()


def _foreign_tokenizer(folder: Path) -> None:
    other_tokenizer(folder).replace(folder / files.TOKENIZER)


def _changed_tokenizer(folder: Path) -> None:
    path = folder / files.TOKENIZER
    content = json.loads(path.read_text())
    vocabulary = content["model"]["vocab"]
    vocabulary["money"], vocabulary["delivery"] = vocabulary["delivery"], vocabulary["money"]
    path.write_text(json.dumps(content))


NAMES = (files.MANIFEST, files.TOKENIZER, files.PASSAGES, files.TENSORS)
CASES: dict[str, tuple[Callable[[Path], object], type[RagopsError], str]] = {
    **{f"{name} cut short": (_cut(name), ModelFilesError, name) for name in NAMES},
    **{f"{name} missing": (_removed(name), ModelFilesError, name) for name in NAMES},
    "other kind": (lambda folder: _manifest(folder, **{"ragops.kind": "churn"}), ModelFilesError, "kind 'churn'"),
    "passages of another version": (
        lambda folder: (folder / files.PASSAGES).write_text("[]"), ModelFilesError, "expected 63 passages; saw 0",
    ),
    "strange passages": (
        lambda folder: (folder / files.PASSAGES).write_text('[{"id": "a"}]'), ModelFilesError, "id, title and text",
    ),
    "doubles": (
        lambda folder: _tensors(folder, head=np.eye(512, 384)), ModelFilesError, "two matrices of float32",
    ),
    "vectors of another version": (
        lambda folder: _tensors(folder, vectors=retriever(768).store.vectors),
        EmbeddingDimensionError, "expected dimension 512, as the head gives; saw 768",
    ),
    "vectors cut short": (
        lambda folder: _tensors(folder, vectors=retriever(512).store.vectors[:60].copy()),
        ModelFilesError, "60 vectors",
    ),
    "head and vectors of another version": (
        lambda folder: _tensors(folder, head=retriever(768).embedder.head, vectors=retriever(768).store.vectors),
        EmbeddingDimensionError, "expected 512.*saw 768",
    ),
    "head of another version": (
        lambda folder: _tensors(folder, head=retriever(512, seed=1).embedder.head), EncoderError, "embedder's",
    ),
    "another image's encoder": (
        lambda folder: _manifest(folder, base_encoder="0123456789abcdef"), EncoderError,
        "base encoder's fingerprint: expected 0123456789abcdef",
    ),
    "another model's tokenizer": (_foreign_tokenizer, TokenizerError, "30522 tokens; saw one of 4"),
    "two words changed places": (_changed_tokenizer, TokenizerError, "tokenizer: expected"),
}  # fmt: skip


@pytest.mark.parametrize(("damage", "kind", "text"), CASES.values(), ids=CASES.keys())
def test_damage_is_named(
    folder: Path, damage: Callable[[Path], object], kind: type[RagopsError], text: str
) -> None:
    """Files cut short, missing, or of two versions: an error that names what and both values, at load."""
    damage(folder)
    with pytest.raises(kind, match=text):
        files.load(folder)
