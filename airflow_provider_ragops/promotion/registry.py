"""The model registry: versions, aliases, tags. The protocol that a release needs, and MLflow's implementation.

MLflow has no compare-and-swap for aliases: :meth:`MlflowRegistry.set_alias` is a blind upsert and the caller
reads back. Every call ends within the client's timeouts (see ``hooks.mlflow``).
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from airflow_provider_ragops.contract import require_alias
from airflow_provider_ragops.exceptions import RegistryError, VersionMissingError
from airflow_provider_ragops.promotion.faults import is_absent, named_faults
from airflow_provider_ragops.promotion.runs import filter_of, pages

_INPUT_EXAMPLE = "serving_input_example.json"
_LARGEST_EXAMPLE = 1 << 20  # bytes; a request to a model is small, and this one is sent to every new pod
_PAGE = 200


@dataclass(frozen=True)
class VersionInfo:
    """One model version; ``run_id`` is the training run that made it, ``tags`` its lineage."""

    model: str
    version: str
    run_id: str
    tags: Mapping[str, str]


class ModelRegistry(Protocol):
    """What releases and gates need from a registry. Versions are decimal numbers as text."""

    def version(self, model: str, version: str) -> VersionInfo:
        """:raises VersionMissingError: when there is no such version."""

    def alias(self, model: str, alias: str) -> str | None:
        """The version under the alias; None where the alias or the whole model does not exist."""

    def set_alias(self, model: str, alias: str, version: str) -> None:
        """Point the alias at the version, whatever it named before: not fenced, read it back."""

    def delete_alias(self, model: str, alias: str) -> None:
        """Remove the alias; one that does not exist is no error."""

    def set_tags(self, model: str, version: str, tags: Mapping[str, str]) -> None:
        """Add or replace tags of a version, in the mapping's order (write the completion marker last)."""

    def find(self, model: str, tags: Mapping[str, str]) -> list[VersionInfo]:
        """All versions that carry all these tags, newest first."""

    def input_example(self, model: str, version: str) -> dict[str, Any]:
        """The JSON body for ``/invocations`` that MLflow made from the model's logged input example."""

    def metrics(self, model: str, version: str) -> dict[str, float]:
        """The last value of each metric of the training run."""


class MlflowRegistry:
    """:class:`ModelRegistry` on an ``MlflowClient``.

    ``where`` names the server in errors, for example ``http://mlflow:5000 (connection 'mlflow_default')``.
    """

    def __init__(self, client: Any, where: str) -> None:
        self._client = client
        self._where = where

    def version(self, model: str, version: str) -> VersionInfo:
        from mlflow.exceptions import MlflowException

        with named_faults(_subject(model, version), self._where):
            try:
                return _info(self._client.get_model_version(model, version))
            except MlflowException as error:
                if not is_absent(error):
                    raise
                raise self._no_version(model, version) from error

    def _no_version(self, model: str, version: str) -> VersionMissingError:
        return VersionMissingError(
            f"{_subject(model, version)} at {self._where}", expected="a registered version",
            seen="none: it was never registered, or was deleted, and the aliases that named it went with it",
            action="Look at the model's page in MLflow; a deleted version does not come back under its number.",
        )  # fmt: skip

    def alias(self, model: str, alias: str) -> str | None:
        from mlflow.exceptions import MlflowException

        require_alias(alias, f"alias {alias!r} of model {model!r}")
        with named_faults(f"alias {alias!r} of model {model!r}", self._where):
            try:
                return str(self._client.get_model_version_by_alias(model, alias).version)
            except MlflowException as error:
                if is_absent(error):
                    return None
                raise

    def set_alias(self, model: str, alias: str, version: str) -> None:
        require_alias(alias, f"alias {alias!r} of model {model!r}")
        with named_faults(f"alias {alias!r} of {_subject(model, version)}", self._where):
            self._client.set_registered_model_alias(model, alias, version)

    def delete_alias(self, model: str, alias: str) -> None:
        if self.alias(model, alias) is None:
            return
        with named_faults(f"alias {alias!r} of model {model!r}", self._where):
            self._client.delete_registered_model_alias(model, alias)

    def set_tags(self, model: str, version: str, tags: Mapping[str, str]) -> None:
        with named_faults(f"tags of {_subject(model, version)}", self._where):
            for key, value in tags.items():
                self._client.set_model_version_tag(model, version, key, value)

    def find(self, model: str, tags: Mapping[str, str]) -> list[VersionInfo]:
        query = filter_of(tags, {"name": model})
        with named_faults(f"versions of model {model!r}", self._where):
            found = pages(
                lambda token: self._client.search_model_versions(query, max_results=_PAGE, page_token=token)
            )
            # Some databases compare text without regard to case: compare again here.
            versions = [_info(each) for each in found if tags.items() <= each.tags.items()]
        return sorted(versions, key=lambda each: int(each.version), reverse=True)

    def input_example(self, model: str, version: str) -> dict[str, Any]:
        subject = f"input example of {_subject(model, version)}"
        with named_faults(subject, self._where), tempfile.TemporaryDirectory() as folder:
            body = _json_object(self._download(model, version, Path(folder)))
        if isinstance(body, dict):
            return body
        raise RegistryError(
            f"{subject} at {self._where}", seen=body,
            expected=f"a JSON object in {_INPUT_EXAMPLE} beside the model, at most {_LARGEST_EXAMPLE} bytes",
            action="Log the model with input_example= a few rows.",
        )  # fmt: skip

    def metrics(self, model: str, version: str) -> dict[str, float]:
        run_id = self.version(model, version).run_id
        with named_faults(f"run {run_id!r} of {_subject(model, version)}", self._where):
            return dict(self._client.get_run(run_id).data.metrics)

    def _download(self, model: str, version: str, folder: Path) -> Path | None:
        """Fetch the example from where the registry keeps the version; None where the model has none.

        The location is asked of our own client: a ``models:/`` URI would be resolved by whatever server the
        process' globals name.
        """
        from mlflow.artifacts import download_artifacts, list_artifacts

        location = self._client.get_model_version_download_uri(model, version)
        server = self._client.tracking_uri
        files = list_artifacts(artifact_uri=location, tracking_uri=server)
        if _INPUT_EXAMPLE not in {Path(file.path).name for file in files}:
            return None
        return Path(download_artifacts(f"{location}/{_INPUT_EXAMPLE}", dst_path=str(folder), tracking_uri=server))


def _json_object(file: Path | None) -> dict[str, Any] | str:
    """The object in the file, or what was seen instead."""
    if file is None:
        return "no such file"
    if file.stat().st_size > _LARGEST_EXAMPLE:
        return f"{file.stat().st_size} bytes"
    try:
        body = json.loads(file.read_text())
    except ValueError:
        return "not JSON"
    return body if isinstance(body, dict) else f"a {type(body).__name__}"


def _subject(model: str, version: str) -> str:
    return f"version {version} of model {model!r}"


def _info(found: Any) -> VersionInfo:
    return VersionInfo(found.name, str(found.version), found.run_id or "", dict(found.tags))
