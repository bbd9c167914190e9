"""Every other request, by MLflow's own parser and schema enforcement; its refusals in our words."""

from __future__ import annotations

import json
import logging
from typing import Any

from airflow_provider_ragops.exceptions import ContentTypeError, InferenceError, InvalidInputError, ServingError
from airflow_provider_ragops.workloads.serving.formats.diagnosis import signature_error
from airflow_provider_ragops.workloads.serving.formats.signature import named_columns

log = logging.getLogger(__name__)

JSON_TYPE = "application/json"
CSV_TYPE = "text/csv"
SHOWN = 500


class Watched:
    """The model as MLflow's scoring function calls it; remembers how far a request came."""

    def __init__(self, pyfunc: Any) -> None:
        self.metadata = pyfunc.metadata
        self._pyfunc = pyfunc
        self.begun = False
        self.failure: Exception | None = None

    def predict(self, data: Any, params: dict[str, Any] | None = None) -> Any:
        from mlflow.exceptions import MlflowException

        self.begun = True
        try:
            return self._pyfunc.predict(data, params=params)
        except MlflowException:
            raise
        except Exception as error:
            self.failure = error
            raise


def answer(subject: str, pyfunc: Any, body: bytes, content_type: str) -> str:
    """The body that MLflow's server would answer with.

    :raises ContentTypeError: the content type is neither JSON nor CSV, or not in UTF-8.
    :raises InvalidInputError: the input is none, or breaks the signature.
    :raises InferenceError: the model raised.
    """
    from mlflow.pyfunc import scoring_server

    if content_type.partition(";")[0].strip().lower() not in (JSON_TYPE, CSV_TYPE):
        raise _content_type(subject, content_type)
    watched = Watched(pyfunc)
    try:
        response, status, _ = scoring_server.invocations(
            body, content_type, watched, pyfunc.metadata.get_input_schema()
        )
    except Exception as error:  # MLflow's parser lets others than its own through, for example for a body of no table
        raise _refusal(subject, pyfunc, watched, body, error) from error
    if status != 200:
        raise _content_type(subject, content_type)
    return str(response)


def _content_type(subject: str, seen: str) -> ContentTypeError:
    return ContentTypeError(
        subject, expected=f"content type {JSON_TYPE} or {CSV_TYPE}, in UTF-8", seen=repr(seen[:100]),
        action="Send one of them.",
    )


def _refusal(subject: str, pyfunc: Any, watched: Watched, body: bytes, error: Exception) -> ServingError:
    from mlflow.exceptions import MlflowException

    if watched.failure is not None:
        return failed(subject, watched.failure)
    if watched.begun and not isinstance(error, MlflowException):
        return ServingError(
            subject, expected="predictions that can be written as JSON", seen=type(error).__name__,
            action="Log a model whose predictions are a frame, an array or plain values.",
        )
    columns, decoded = named_columns(pyfunc), _decoded(body)
    found = signature_error(subject, columns, decoded) if columns else None
    return found or InvalidInputError(
        subject, expected="an input in one of MLflow's formats that fits the model's signature",
        seen=_told(error), action="See docs/serving.md for the formats.",
    )


def failed(subject: str, error: Exception) -> InferenceError:
    """The model raised: only the kind is told, because the text may repeat data."""
    log.warning("the model failed", extra={"cause": type(error).__name__})
    return InferenceError(
        subject, expected="the model to answer this input", seen=type(error).__name__,
        action="Compare the values with those that the model was trained on.",
    )


def _decoded(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def _told(error: Exception) -> str:
    """The last part of MLflow's message: those before repeat the input."""
    text = str(getattr(error, "message", "") or type(error).__name__)
    text = text.rpartition("\nError: ")[2].partition("\nInput:")[0]
    return " ".join(text.rpartition(" Error: ")[2].partition(" IMPORTANT:")[0].split())[:SHOWN]
