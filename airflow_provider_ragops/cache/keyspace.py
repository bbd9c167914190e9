"""Whether the keys of two versions that run side by side stay apart: a part of a release's verification.

Two versions can't share a key whose name carries its version where it must. So it is enough that each marker names
its own training run of this model, and that no key under the prefix has a name without a version.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from airflow_provider_ragops.cache.marker import Marker, read_marker
from airflow_provider_ragops.cache.scanning import PAGE, literal, pages, version_of
from airflow_provider_ragops.contract import digest, marker_key

log = logging.getLogger(__name__)

_FAMILY = re.compile(r"rag_(?:decompose|store|meta)(?![0-9A-Za-z_])")


def key_space_fault(
    client: Any, prefix: str, model: str, old: str, new: str, *,
    runs: Mapping[str, str] | None = None, limit: int = 50_000,
) -> str:
    """The first thing that is wrong; empty where nothing is.

    :param old: the version that is being replaced; empty on a first release.
    :param runs: the registry's training run by version: a marker that names another one is stale.
    :param limit: about how many keys of the whole database to look at. The order of SCAN is that of hashes, so the
        first ones are a sample of all.
    """
    if old == new:
        return f"versions {old} and {new} are one: their keys can't be told apart"
    versions = [version for version in (old, new) if version]
    found = {version: read_marker(client, prefix, version) for version in versions}
    present = {version: marker for version, marker in found.items() if marker}
    return marker_fault(prefix, model, present, runs or {}) or _name_fault(client, prefix, limit)


def marker_fault(prefix: str, model: str, found: Mapping[str, Marker], runs: Mapping[str, str]) -> str:
    """What the markers of versions that run side by side say wrong; empty for nothing."""
    owners: dict[str, str] = {}
    for version, marker in found.items():
        key = marker_key(prefix, version)
        if marker.model != model:
            return f"marker {key} names {marker.model or 'no model'}, not {model}: two models share the prefix"
        if not marker.run:
            return f"marker {key} names no training run"
        if version in runs and marker.run != runs[version]:
            known = runs[version]
            truth = f"version {version} is of run {known}" if known else f"there is no version {version}"
            return f"marker {key} names run {marker.run}, but {truth}: its keys are stale"
        if marker.run in owners:
            return f"markers of versions {owners[marker.run]} and {version} name one run, {marker.run}"
        owners[marker.run] = version
    return ""


def _name_fault(client: Any, prefix: str, limit: int) -> str:
    most = max(1, limit // PAGE)
    seen = 0
    for page in islice(pages(client, f"{literal(prefix)}rag_*"), most):
        seen += 1
        for key in _nameless(prefix, page):
            return (f"key {shown(prefix, key)} has no version where it must: an application that keeps versions "
                    f"apart by other means, or not at all, writes under prefix {prefix!r}")
    log.info("key space under %r: %s", prefix, f"sampled, about {most * PAGE} keys" if seen == most else "all keys")
    return ""


def _nameless(prefix: str, keys: list[str]) -> Iterator[str]:
    return (key for key in keys if _FAMILY.match(key, len(prefix)) and version_of(prefix, key) is None)


def shown(prefix: str, key: str) -> str:
    """A key as it may stand in a log: customer ids are hashed."""
    family = _FAMILY.match(key, len(prefix))
    end = family.end() if family else len(prefix)
    return f"{key[:end]}… (digest {digest(key)})" if key[end:] else key
