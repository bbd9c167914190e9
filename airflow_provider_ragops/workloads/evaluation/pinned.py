"""One registered version, pinned by its number and its training run; its files are checked before they are loaded."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_provider_ragops import contract
from airflow_provider_ragops.exceptions import DataError, RegistryError
from airflow_provider_ragops.workloads.environment import UNKNOWN
from airflow_provider_ragops.workloads.serving.artifact import verify

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.pyfunc import PyFuncModel

log = logging.getLogger(__name__)

_NOT_FOUND = 404


@dataclass(frozen=True)
class Pinned:
    """A version as the registry described it *before* its files were read.

    ``run_id``, the training run, is its identity: a registered model that is deleted and made anew counts from 1
    again. ``digest`` is empty where the version carries none.
    """

    model: str
    version: str
    run_id: str
    split_id: str
    digest: str

    @property
    def subject(self) -> str:
        return f"{self.model} version {self.version}"


def pin(client: MlflowClient, model: str, version: str) -> Pinned:
    """:raises RegistryError: when there is no such version, or it names no training run."""
    from mlflow.exceptions import MlflowException

    try:
        found = client.get_model_version(model, version)
    except MlflowException as error:
        if error.get_http_status_code() != _NOT_FOUND:
            raise
        raise _unregistered(model, version, str(error)[:300]) from error
    if not found.run_id:
        raise _unregistered(model, version, "a version without a run")
    split_id = str(found.tags.get(contract.TAG_SPLIT_ID, UNKNOWN))
    return Pinned(model, version, str(found.run_id), split_id, str(found.tags.get(contract.TAG_MODEL_DIGEST, "")))


@contextmanager
def loaded(pinned: Pinned) -> Iterator[PyFuncModel]:
    """The model, whose files lie in a folder of their own as long as the block runs.

    :raises RegistryError: when the files are missing.
    :raises DataError: when they are not those that were registered, or can't be loaded. Nothing is unpickled before
        the digest was compared.
    """
    import mlflow

    with tempfile.TemporaryDirectory() as folder:
        files = _download(pinned, Path(folder))
        if pinned.digest:
            verify(pinned.subject, files, pinned.digest)
        else:
            log.warning("%s carries no digest: its files are loaded unchecked", pinned.subject)
        try:
            model = mlflow.pyfunc.load_model(str(files))
        except Exception as error:  # whatever a library raises over a damaged file
            raise DataError(
                pinned.subject, expected="files that can be loaded",
                seen=f"{type(error).__name__}: {str(error)[-300:]}", action="Train or register the version again.",
            ) from error
        yield model


def _download(pinned: Pinned, folder: Path) -> Path:
    import mlflow
    from mlflow.exceptions import MlflowException
    from requests import HTTPError

    target, missing = folder / "files", "no file MLmodel"
    target.mkdir()
    try:
        mlflow.artifacts.download_artifacts(f"models:/{pinned.model}/{pinned.version}", dst_path=str(target))
    except MlflowException as error:
        if error.get_http_status_code() != _NOT_FOUND:
            raise
        missing = str(error)[:300]
    except HTTPError as error:
        if error.response is None or error.response.status_code != _NOT_FOUND:
            raise
        missing = "HTTP 404"
    if not (target / "MLmodel").is_file():
        raise RegistryError(
            pinned.subject, expected="the files of a model", seen=missing,
            action="READY proves nothing about artifacts: train or register the version again.",
        )
    return target


def _unregistered(model: str, version: str, seen: str) -> RegistryError:
    return RegistryError(
        f"{model} version {version}", expected="a registered version with its training run", seen=seen,
        action="Train the candidate first; where the champion was deleted, set its alias to a version that exists.",
    )
