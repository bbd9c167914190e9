"""A loaded version: built from checked files, warmed up, and answering as MLflow's scoring server does."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_provider_ragops.exceptions import RegistryError
from airflow_provider_ragops.workloads.serving.artifact import fetch

if TYPE_CHECKING:
    from airflow_provider_ragops.workloads.serving.settings import Settings

log = logging.getLogger(__name__)

EXAMPLE_FILE = "serving_input_example.json"  # the body for /invocations that MLflow makes of the input example


@dataclass(frozen=True)
class Answer:
    body: str
    status: int
    media_type: str = "application/json"


@dataclass(frozen=True)
class LoadedModel:
    """``pyfunc``: MLflow's model, called by several threads at once."""

    name: str
    version: str
    pyfunc: Any

    def answer(self, body: bytes, content_type: str) -> Answer:
        """Predict. Bad input gives status 400 with MLflow's error code and message, never an exception."""
        from mlflow.exceptions import MlflowException
        from mlflow.pyfunc import scoring_server

        try:
            schema = self.pyfunc.metadata.get_input_schema()
            response, status, media_type = scoring_server.invocations(body, content_type, self.pyfunc, schema)
        except MlflowException as error:
            # No stack trace, unlike MLflow's server; and no message in the log, because it repeats the caller's data.
            log.warning("not answered", extra={"error_code": error.error_code, "cause": _cause(error)})
            return error_answer(error.error_code, error.message, error.get_http_status_code())
        except Exception as error:  # what MLflow's parser lets through, for example a body that is no table
            log.warning("not answered", extra={"error_code": "INTERNAL_ERROR", "cause": _cause(error)})
            return error_answer("INTERNAL_ERROR", f"{type(error).__name__}: {error}", 500)
        if status != 200:
            return error_answer("BAD_REQUEST", response, status)
        return Answer(self._with_metadata(response), status, media_type)

    def _with_metadata(self, response: str) -> str:
        # Spliced, not parsed: predictions may be megabytes. A unified LLM answer has no such key: left as it is.
        if not response.startswith('{"predictions":'):
            return response
        metadata = json.dumps({"model_name": self.name, "model_version": self.version})
        return f'{response[:-1]}, "metadata": {metadata}}}'


def _cause(error: Exception) -> str:
    return type(error.__cause__ or error.__context__ or error).__name__


def error_answer(code: str, message: str, status: int, **more: str) -> Answer:
    return Answer(json.dumps({"error_code": code, "message": message, **more}), status)


def load(settings: Settings) -> LoadedModel:
    """Fetch, check, unpickle and warm up the pinned version; raises what ``fetch`` raises.

    :raises RegistryError: the files can't be loaded, or the model does not answer its own input example.
    """
    folder = fetch(settings)
    loaded = LoadedModel(settings.model_name, settings.model_version, _unpickle(settings, folder))
    warm_up(settings.subject, loaded, folder)
    return loaded


def _unpickle(settings: Settings, folder: Path) -> Any:
    from mlflow import pyfunc

    try:
        return pyfunc.load_model(str(folder))
    except Exception as error:  # a model may run any code while it loads
        raise RegistryError(
            settings.subject, expected="files that this image can load", seen=f"{type(error).__name__}: {error}"[:400],
            action="Compare the model's requirements with docker/requirements-serving.txt.",
        ) from error


def warm_up(subject: str, loaded: LoadedModel, folder: Path) -> None:
    """Answer the model's input example once, so that ready means "answers" and the first caller does not wait."""
    example = folder / EXAMPLE_FILE
    if not example.is_file():
        log.warning("the model carries no input example: not warmed up")
        return
    answer = loaded.answer(example.read_bytes(), "application/json")
    if answer.status != 200:
        raise RegistryError(
            subject, expected="an answer to the model's own input example", seen=answer.body[:400],
            action="Log the model with an input example that it accepts.",
        )
