"""A model version's files: downloaded into this pod's cache and checked before anything unpickles them."""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_provider_ragops.contract import TAG_MODEL_DIGEST, dns_name, tree_digest
from airflow_provider_ragops.exceptions import ConfigurationError, DataError, RegistryError, UnreachableError

if TYPE_CHECKING:
    from airflow_provider_ragops.workloads.serving.settings import Settings

log = logging.getLogger(__name__)

# MLflow's own defaults (7 retries of 120 s each) would keep the reason from /health for many minutes.
BOUNDS = {
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "30",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
    "MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR": "1",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
}


@dataclass(frozen=True)
class Registration:
    """What the registry says of the pinned version: empty texts where it says nothing."""

    digest: str
    run_id: str


def fetch(settings: Settings, registered: Registration | None = None) -> Path:
    """Download the pinned version and check its digest; returns the model directory.

    Files left by an earlier container of this pod are used again only where the digest proves them.

    :raises ConfigurationError: the version is no number, or the cache directory can't be written.
    :raises RegistryError: MLflow has no such version.
    :raises UnreachableError: MLflow or its artifacts did not answer.
    :raises DataError: the files are not those that were registered.
    """
    digest = (registered or registration(settings)).digest
    folder = settings.cache_dir / dns_name(settings.model_name) / settings.model_version
    if digest and folder.is_dir() and tree_digest(folder) == digest:
        log.info("files in the cache match the digest", extra={"digest": digest})
        return folder
    _download(settings, folder)
    if digest:
        verify(settings.subject, folder, digest)
    return folder


def verify(subject: str, folder: Path, digest: str) -> None:
    """:raises DataError: when the files' digest is not the registered one; the files are removed."""
    seen = tree_digest(folder)
    if seen == digest:
        return
    shutil.rmtree(folder)
    raise DataError(
        subject, expected=f"files with digest {digest} (tag {TAG_MODEL_DIGEST})", seen=f"digest {seen}",
        action="Nothing was unpickled. Find out who changed the artifacts, then train or register the version again.",
    )


def registration(settings: Settings) -> Registration:
    """Ask the registry about the pinned version; raises as :func:`fetch`."""
    from mlflow import MlflowClient

    if not (settings.model_version.isascii() and settings.model_version.isdecimal()):
        raise ConfigurationError(
            settings.subject, expected="a version number", seen=repr(settings.model_version),
            action="Release a version; an alias would be resolved anew by every pod.",
        )
    for name, value in BOUNDS.items():
        os.environ.setdefault(name, value)
    with mlflow_errors(settings):
        client = MlflowClient(tracking_uri=settings.tracking_uri, registry_uri=settings.tracking_uri)
        found = client.get_model_version(settings.model_name, settings.model_version)
    return Registration(_digest(settings, found.tags), found.run_id or "")


def _digest(settings: Settings, tags: dict[str, str]) -> str:
    digest = tags.get(TAG_MODEL_DIGEST, "")
    if not digest and settings.require_digest:
        raise DataError(
            settings.subject, expected=f"a tag {TAG_MODEL_DIGEST}", seen="none",
            action="Register the version with a digest, or set requireDigest to false in the chart.",
        )
    if not digest:
        log.warning("the version carries no digest: its files are loaded unchecked")
    return digest


def _download(settings: Settings, folder: Path) -> None:
    import mlflow

    # models:/ URIs are resolved through the process-wide address, whatever download_artifacts is told.
    mlflow.set_tracking_uri(settings.tracking_uri)
    mlflow.set_registry_uri(settings.tracking_uri)
    shutil.rmtree(folder, ignore_errors=True)
    with mlflow_errors(settings):
        folder.mkdir(parents=True)
        uri = f"models:/{settings.model_name}/{settings.model_version}"
        mlflow.artifacts.download_artifacts(artifact_uri=uri, dst_path=str(folder))
    if not (folder / "MLmodel").is_file():
        raise RegistryError(
            settings.subject, expected="a model directory with an MLmodel file",
            seen=f"{sum(1 for _ in folder.rglob('*'))} other files",
            action="The version's artifacts are missing: train or register it again.",
        )


@contextmanager
def mlflow_errors(settings: Settings) -> Iterator[None]:
    """Turn what MLflow's client raises into our errors, which say whether waiting helps."""
    from mlflow.exceptions import MlflowException
    from requests import RequestException

    try:
        yield
    except MlflowException as error:
        status = error.get_http_status_code()
        if status == 429 or status >= 500:
            raise _unreachable(settings, error) from error
        raise RegistryError(
            settings.subject, expected=f"MLflow at {settings.tracking_uri} to know it", seen=_first_line(error),
            action="Check the version in the registry and the serving pod's MLflow credentials.",
        ) from error
    except RequestException as error:
        raise _unreachable(settings, error) from error
    except OSError as error:
        raise ConfigurationError(
            f"model cache {settings.cache_dir}", expected="a writable directory with room for the model",
            seen=_first_line(error), action="Check the volume model-cache of the pod.",
        ) from error


def _unreachable(settings: Settings, error: Exception) -> UnreachableError:
    return UnreachableError(
        f"MLflow at {settings.tracking_uri}", expected=f"an answer about {settings.subject}",
        seen=_first_line(error), action="Check that the server runs and that pods reach it; this is tried again.",
    )


def _first_line(error: Exception, limit: int = 400) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0][:limit]
