"""Who refers to which version: nothing that is referred to is ever cleaned up."""

from __future__ import annotations

import logging
from collections.abc import Iterator

from airflow_provider_ragops.exceptions import TargetError, UnreachableError
from airflow_provider_ragops.release.record import ReleaseRecord, any_record
from airflow_provider_ragops.release.session import Session

log = logging.getLogger(__name__)


def referrers(session: Session) -> dict[str, str]:
    """Each version that something refers to, and what: any target's record of this model, a live pod, an alias."""
    found: dict[str, list[str]] = {}
    for version, referrer in _references(session):
        if version:
            found.setdefault(version, []).append(referrer)
    return {version: ", ".join(names) for version, names in found.items()}


def _references(session: Session) -> Iterator[tuple[str, str]]:
    target = session.target
    for deployment in session.updater.neighbours():
        name = f"{deployment['metadata']['namespace']}/{deployment['metadata']['name']}"
        record = any_record(deployment, f"Deployment {name}")
        if record and record.model == target.model:
            yield from _of_record(record, f"Deployment {name}")
    for pod in session.updater.pods(session.updater.read()):
        yield pod.version, f"pod {pod.name}"
    for alias in (target.champion, target.challenger):
        yield session.registry.alias(target.model, alias) or "", f"alias {alias}"


def _of_record(record: ReleaseRecord, name: str) -> Iterator[tuple[str, str]]:
    yield record.to_version, f"served by {name}"
    yield record.from_version, f"served before by {name}"
    yield record.last_good, f"last good of {name}"


def clean_unreferenced(session: Session, record: ReleaseRecord) -> None:
    """Remove the Redis keys of versions that nothing refers to; the pods of old versions are gone by now."""
    if session.keys is None or not record.to_version:
        return
    session.check()
    try:
        left = session.keys.clean(referrers(session) | {record.to_version: f"served by {session.target.slug}"})
        for version, reason in left.items():
            log.warning("keys of version %s are left: %s", version, reason)
    except (UnreachableError, TargetError):
        # The release stands. What can't be read may refer to anything; a later release or reconcile removes the keys.
        log.exception("clean-up of old versions' keys did not finish")
