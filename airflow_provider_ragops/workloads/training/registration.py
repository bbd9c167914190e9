"""Register a version once per registration key; the completion marker is the last write.

MLflow has no idempotency key and its client sends a create again after a lost reply. So: look for the key
first, put the key into the tags at creation, and treat a version as existing only when it is complete: its
marker is set, its run is FINISHED, and the run carries the same marker. Incomplete versions are leftovers of
dead attempts; everybody ignores them. Where two attempts complete at once, the lowest version counts.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_ragops import contract

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities.model_registry import ModelVersion

log = logging.getLogger(__name__)

REGISTRATION_SECONDS = 60


@dataclass(frozen=True)
class Registered:
    """A version and the attempt that completed it."""

    version: str
    run_id: str
    attempt: str


def find_completed(client: MlflowClient, model: str, key: str) -> Registered | None:
    """Find the completed version with this registration key; the lowest where there are several."""
    for version in _with_key(client, model, key):
        marker = version.tags.get(contract.TAG_COMPLETED)
        if not marker or not version.run_id:
            continue
        run = client.get_run(version.run_id)
        if contract.is_completed(marker, run.info.status, run.data.tags):
            return Registered(str(version.version), str(version.run_id), marker)
    return None


def register(model_uri: str, model: str, tags: dict[str, str]) -> str:
    """Create a version with its tags in one call; returns its number."""
    import mlflow

    created = mlflow.register_model(model_uri, model, await_registration_for=REGISTRATION_SECONDS, tags=tags)
    return str(created.version)


def complete(client: MlflowClient, model: str, own: Registered, key: str) -> Registered:
    """Mark the version of a finished run; returns the version that counts, which may be another attempt's."""
    if other := find_completed(client, model, key):
        log.warning("version %s of %s was completed by attempt %s meanwhile: ours (%s) stays unmarked",
                    other.version, model, other.attempt, own.version)
        return other
    client.set_model_version_tag(model, own.version, contract.TAG_COMPLETED, own.attempt)
    first = find_completed(client, model, key) or own
    if first.version != own.version:
        log.warning("attempt %s completed version %s at the same time: ours (%s) is withdrawn",
                    first.attempt, first.version, own.version)
        client.delete_model_version_tag(model, own.version, contract.TAG_COMPLETED)
    _report_leftovers(client, model, first, key)
    return first


def _report_leftovers(client: MlflowClient, model: str, counts: Registered, key: str) -> None:
    """Name the versions of the same work that nobody will use: one per lost reply and per dead attempt."""
    with_key = [str(version.version) for version in _with_key(client, model, key)]
    left = [version for version in with_key if version != counts.version]
    if left:
        log.warning("version %s of %s counts for registration key %s; %s carried it too (a reply of MLflow was lost, "
                    "or an attempt died): nobody uses them, they may be deleted",
                    counts.version, model, key, ", ".join(left))


def _with_key(client: MlflowClient, model: str, key: str) -> list[ModelVersion]:
    found = client.search_model_versions(f"name='{model}' AND tags.`{contract.TAG_REGISTRATION_KEY}`='{key}'")
    # Some databases compare text without regard to case: compare again here.
    exact = (version for version in found if version.tags.get(contract.TAG_REGISTRATION_KEY) == key)
    return sorted(exact, key=lambda version: int(version.version))
