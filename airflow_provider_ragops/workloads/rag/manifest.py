"""What a version says about itself: the same fields in its own file and in MLflow's metadata of the model."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from airflow_provider_ragops import contract
from airflow_provider_ragops.exceptions import ModelFilesError

KIND = "rag-retriever"
_ACTION = "The version's files are damaged: download them again, or train another version."


@dataclass(frozen=True)
class Manifest:
    """``embedder_fingerprint`` names base encoder, tokenizer and head together; the next two name the first two."""

    dimension: int
    vocabulary_size: int
    embedder_fingerprint: str
    base_encoder: str
    tokenizer: str
    passages: int

    @property
    def metadata(self) -> dict[str, Any]:
        """As MLflow keeps it in the file ``MLmodel``."""
        return {contract.TAG_KIND: KIND, **asdict(self)}

    def write(self, path: Path) -> None:
        path.write_text(json.dumps(self.metadata, indent=1))


def read(path: Path) -> Manifest:
    """:raises ModelFilesError: when the file is missing, cut short, or another kind of model's."""
    try:
        content = json.loads(path.read_text())
        if content[contract.TAG_KIND] != KIND:
            raise ValueError(f"kind {content[contract.TAG_KIND]!r}")  # noqa: TRY301 - told with the rest below
        kinds = {"int": int, "str": str}
        found = {each.name: kinds[str(each.type)](content[each.name]) for each in fields(Manifest)}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ModelFilesError(
            f"manifest {path.name}", expected=f"the fields of a {KIND}", seen=f"{type(error).__name__}: {error}"[:300],
            action=_ACTION,
        ) from error
    return Manifest(**found)
