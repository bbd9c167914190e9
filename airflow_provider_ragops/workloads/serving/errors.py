"""The one table of what a caller is told instead of an answer: a stable code, the HTTP status, MLflow's own code.

The body has ``code`` (ours, for programs; never renamed), ``error_code`` (one of MLflow's, so that its clients raise
what they would raise for its own server), ``message`` (for people) and the error's details.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from airflow_provider_ragops import exceptions
from airflow_provider_ragops.exceptions import ServingError
from airflow_provider_ragops.workloads.serving.answer import Answer


@dataclass(frozen=True)
class Code:
    """``retry_after``: seconds until asking again makes sense; 0 where the same request fails again."""

    code: str
    status: int
    mlflow: str
    retry_after: int = 0


CODES: dict[type[Exception], Code] = {
    exceptions.InvalidInputError: Code("invalid_input", 400, "BAD_REQUEST"),
    exceptions.SignatureError: Code("signature_violation", 400, "INVALID_PARAMETER_VALUE"),
    exceptions.InferenceError: Code("inference_failed", 400, "BAD_REQUEST"),
    exceptions.BodyTimeoutError: Code("body_timeout", 408, "BAD_REQUEST"),
    exceptions.VersionNotServedError: Code("model_version_not_found", 409, "RESOURCE_CONFLICT"),
    exceptions.TooLargeError: Code("too_large", 413, "BAD_REQUEST"),
    exceptions.ContentTypeError: Code("unsupported_content_type", 415, "BAD_REQUEST"),
    exceptions.OverloadedError: Code("overloaded", 429, "REQUEST_LIMIT_EXCEEDED", retry_after=1),
    exceptions.ServingError: Code("internal_error", 500, "INTERNAL_ERROR"),
    exceptions.EmbeddingDimensionError: Code("embedding_dimension_mismatch", 503, "TEMPORARILY_UNAVAILABLE", 5),
    exceptions.TokenizerError: Code("tokenizer_mismatch", 503, "TEMPORARILY_UNAVAILABLE", 5),
    exceptions.EncoderError: Code("encoder_mismatch", 503, "TEMPORARILY_UNAVAILABLE", 5),
    exceptions.ModelFilesError: Code("model_files_invalid", 503, "TEMPORARILY_UNAVAILABLE", 5),
    exceptions.CacheUnavailableError: Code("cache_unavailable", 503, "TEMPORARILY_UNAVAILABLE", 5),
    exceptions.CacheKeyCollisionError: Code("cache_key_collision", 503, "TEMPORARILY_UNAVAILABLE", 5),
    exceptions.NotReadyError: Code("not_ready", 503, "TEMPORARILY_UNAVAILABLE", 1),
    exceptions.AnswerTimeoutError: Code("timeout", 504, "DEADLINE_EXCEEDED"),
}


def code_of(error: Exception) -> Code:
    """The row of the error's class, or of its nearest base; ``internal_error`` for what is no error of ours."""
    return next((CODES[kind] for kind in type(error).__mro__ if kind in CODES), CODES[ServingError])


def error_answer(error: Exception) -> Answer:
    """What the caller is told. Of errors that are not ours only the kind: their text may hold anything."""
    row = code_of(error)
    told = isinstance(error, tuple(CODES))
    message = str(error) if told else f"The server failed with {type(error).__name__}; its log says more."
    body = {"code": row.code, "error_code": row.mlflow, "message": message}
    details = error.details if isinstance(error, ServingError) else {}
    headers = {"retry-after": str(row.retry_after)} if row.retry_after else {}
    return Answer(json.dumps(body | details), row.status, headers=headers, code=row.code)
