"""Texts to token ids, with the tokenizer that a version carries. ``tokenizers`` is loaded here and nowhere else."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_provider_ragops import contract
from airflow_provider_ragops.exceptions import ModelFilesError

if TYPE_CHECKING:
    import tokenizers

MOST_TOKENS = 128  # what the base encoder was trained with; the rest of a text is not read
_MOST_CHARACTERS = 8192  # a token has about five: tokenizing a megabyte to read 128 tokens is no use


class Tokenizer:
    """The wordpiece tokenizer of one version; its calls may come from several threads."""

    def __init__(self, loaded: tokenizers.Tokenizer, digest: str) -> None:
        self._loaded = loaded
        self.digest = digest
        self.vocabulary_size: int = loaded.get_vocab_size(with_added_tokens=True)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Token ids of each text, at most :data:`MOST_TOKENS`, with the marks for begin and end."""
        # One by one: a batch would start a thread pool, which does not survive a fork.
        return [self._loaded.encode(_readable(text)).ids for text in texts]


def load(path: Path) -> Tokenizer:
    """:raises ModelFilesError: when the file is missing, cut short or no tokenizer."""
    import tokenizers

    try:
        loaded = tokenizers.Tokenizer.from_file(str(path))
        digest = contract.file_digest(path)
    except Exception as error:  # the library raises plain Exception, whatever is wrong
        raise ModelFilesError(
            f"tokenizer {path.name}", expected="a tokenizer's file", seen=f"{type(error).__name__}: {str(error)[:200]}",
            action="The version's files are damaged: download them again, or train another version.",
        ) from error
    # The file pads every text to 128 tokens, which costs a short question twelve times its work.
    loaded.no_padding()
    loaded.enable_truncation(MOST_TOKENS)
    return Tokenizer(loaded, digest)


def _readable(text: str) -> str:
    # A lone surrogate, which JSON can carry, has no UTF-8: it is read as a question mark.
    return text[:_MOST_CHARACTERS].encode("utf-8", "replace").decode("utf-8")
