"""The retriever as MLflow serves it: questions in a column ``query``, an answer with its sources for each.

Our serving pods take ``retriever`` and put a cache around it; MLflow's own server calls ``predict``.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

# A leaf: imported where a retriever is logged or loaded, and by nothing else.
from mlflow.pyfunc import PythonModel  # noqa: TID253

from airflow_provider_ragops.exceptions import DataError

if TYPE_CHECKING:
    import pandas as pd

    from airflow_provider_ragops.workloads.rag.retriever import RagRetriever

FILES = "retriever"  # name of the artifact
QUERY, ANSWER, SOURCES = "query", "answer", "sources"


class RagModel(PythonModel):
    """MLflow's model; ``retriever`` is there after ``load_context``."""

    retriever: RagRetriever

    def load_context(self, context: Any) -> None:
        from airflow_provider_ragops.workloads.rag import files

        self.retriever = files.load(Path(context.artifacts[FILES]))

    def predict(self, context: Any, model_input: pd.DataFrame, params: dict[str, Any] | None = None) -> pd.DataFrame:  # noqa: ARG002
        """Give columns ``answer`` and ``sources`` (JSON: a list of id, title and score), in the order of the rows.

        :raises DataError: when a question is no text: MLflow lets null pass for a string.
        """
        import pandas as pd

        if count := sum(not isinstance(query, str) for query in model_input[QUERY]):
            raise DataError(
                f"column {QUERY!r}", expected="a text in every row", seen=f"{count} rows without",
                action="Leave out the rows without a question.",
            )
        answers = [self.retriever.answer(query) for query in model_input[QUERY]]
        sources = [json.dumps([vars(source) for source in answer.sources]) for answer in answers]
        return pd.DataFrame({ANSWER: [each.text for each in answers], SOURCES: sources}, index=model_input.index)
