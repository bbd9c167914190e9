"""Which versions have keys in Redis, and which of them nothing needs. Reads only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from airflow_provider_ragops.cache.marker import Marker, markers
from airflow_provider_ragops.cache.scanning import literal, pages, patterns, version_of


def unreferenced(found: Mapping[str, Marker], model: str, keep: Collection[str]) -> dict[str, Marker]:
    """Of these markers, by version, those of our model that are not to be kept."""
    return {version: marker for version, marker in found.items() if marker.model == model and version not in keep}


def leftovers(client: Any, prefix: str, model: str, keep: Collection[str]) -> dict[str, int]:
    """How many keys, markers included, each version has that a clean-up with the same ``keep`` would remove."""
    found = unreferenced(markers(client, prefix), model, keep)
    return {version: 1 + len(_keys(client, patterns(prefix, version))) for version in found}


def stale(client: Any, prefix: str, model: str, runs: Mapping[str, str]) -> dict[str, str]:
    """Versions whose marker names another training run than the registry does; the marker's run by version.

    A registered model that is deleted and made anew counts from 1 again: the number is the same, the keys are not.

    :param runs: the registry's run by version, empty where the registry has no such version. Others are not judged.
    """
    found = {version: marker.run for version, marker in markers(client, prefix).items() if marker.model == model}
    return {version: found[version] for version, run in runs.items() if version in found and found[version] != run}


def counts(client: Any, prefix: str) -> dict[str, int]:
    """How many keys each version has, its marker included."""
    keys = _keys(client, [f"{literal(prefix)}rag_*"])
    return dict(Counter(version for version in (version_of(prefix, key) for key in keys) if version is not None))


def unmarked(client: Any, prefix: str) -> dict[str, int]:
    """How many keys each version has that no marker claims: no clean-up touches them, they end with their TTL."""
    claimed = markers(client, prefix)
    return {version: number for version, number in counts(client, prefix).items() if version not in claimed}


def _keys(client: Any, matching: Iterable[str]) -> set[str]:
    return {key for pattern in matching for page in pages(client, pattern) for key in page}
