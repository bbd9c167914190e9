"""A loaded version: built from checked files, warmed up, and answering as MLflow's scoring server does."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_provider_ragops.exceptions import RagopsError, RegistryError, ServingError
from airflow_provider_ragops.workloads.serving.answer import Answer
from airflow_provider_ragops.workloads.serving.artifact import fetch, registration
from airflow_provider_ragops.workloads.serving.checks import check_files, retriever_of
from airflow_provider_ragops.workloads.serving.errors import error_answer
from airflow_provider_ragops.workloads.serving.formats import parsed
from airflow_provider_ragops.workloads.serving.formats.direct import DirectReader, NotDirect
from airflow_provider_ragops.workloads.serving.formats.encoding import Encoder
from airflow_provider_ragops.workloads.serving.formats.signature import direct_columns

if TYPE_CHECKING:
    from airflow_provider_ragops.workloads.serving.questions import Retriever
    from airflow_provider_ragops.workloads.serving.settings import Settings

log = logging.getLogger(__name__)

EXAMPLE_FILE = "serving_input_example.json"  # the body for /invocations that MLflow makes of the input example
PLAIN_JSON = frozenset(("application/json", "application/json; charset=utf-8", "application/json;charset=utf-8"))


@dataclass(frozen=True)
class LoadedModel:
    """Called by several threads at once.

    ``run_id``: the training run that the registry names. ``direct``: None where the signature is not a plain table.
    ``retriever``: only of a RAG model.
    """

    name: str
    version: str
    pyfunc: Any
    encoder: Encoder
    run_id: str = ""
    direct: DirectReader | None = None
    call: Callable[[Any], Any] | None = None
    retriever: Retriever | None = None

    @classmethod
    def of(cls, name: str, version: str, pyfunc: Any, run_id: str = "") -> LoadedModel:
        """Look once at everything of the model that no request changes."""
        encoder = Encoder({"model_name": name, "model_version": version})
        columns, call = direct_columns(pyfunc), _predictor(pyfunc)
        direct = DirectReader(columns) if columns and call else None
        return cls(name, version, pyfunc, encoder, run_id, direct, call, retriever_of(pyfunc))

    @property
    def subject(self) -> str:
        return f"model {self.name} version {self.version}"

    def answer(self, body: bytes, content_type: str) -> Answer:
        """Predict.

        :raises ServingError: bad input, or a model that failed on it.
        """
        if self.direct is not None and content_type in PLAIN_JSON:
            try:
                frame = self.direct.frame(json.loads(body))
            except (NotDirect, ValueError, RecursionError):
                pass  # MLflow's parser has the verdict
            else:
                return Answer(self._predicted(frame))
        return Answer(self.encoder.spliced(parsed.answer(self.subject, self.pyfunc, body, content_type)))

    def _predicted(self, frame: Any) -> str:
        assert self.call is not None  # noqa: S101  the direct path has one
        try:
            raw = self.call(frame)
        except Exception as error:  # a model may raise anything
            raise parsed.failed(self.subject, error) from error
        return self.encoder.predictions(raw)


def _predictor(pyfunc: Any) -> Callable[[Any], Any] | None:
    """The model's function as ``PyFuncModel.predict`` calls it once the input is enforced."""
    import inspect

    function = getattr(pyfunc, "_predict_fn", None)
    if function is None:
        return None
    accepts = inspect.signature(function).parameters.get("params")
    if accepts is not None and accepts.kind != inspect.Parameter.VAR_KEYWORD:
        return lambda frame: function(frame, params=None)
    return function  # type: ignore[no-any-return]


def load(settings: Settings) -> LoadedModel:
    """Fetch, check, unpickle and warm up the pinned version; raises what ``fetch`` raises.

    :raises RegistryError: the files can't be loaded, or the model does not answer its own input example.
    """
    registered = registration(settings)
    folder = fetch(settings, registered)
    check_files(settings, folder)
    pyfunc = _unpickle(settings, folder)
    loaded = LoadedModel.of(settings.model_name, settings.model_version, pyfunc, registered.run_id)
    warm_up(settings.subject, loaded, folder)
    return loaded


def _unpickle(settings: Settings, folder: Path) -> Any:
    from mlflow import pyfunc

    try:
        return pyfunc.load_model(str(folder))
    except RagopsError:
        raise  # a retriever's own checks, which have codes
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
    try:
        loaded.answer(example.read_bytes(), "application/json")
    except ServingError as error:
        raise RegistryError(
            subject, expected="an answer to the model's own input example", seen=error_answer(error).body[:400],
            action="Log the model with an input example that it accepts.",
        ) from error
