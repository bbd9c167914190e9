"""A version's marker: the hash that says which model and which training run the version's keys belong to.

Serving writes it before the first key. A version number alone is no identity: a registered model that is deleted and
made anew counts from 1 again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from airflow_provider_ragops.cache.scanning import literal, pages, version_of
from airflow_provider_ragops.contract import MARKER_MODEL, MARKER_RUN, marker_key

# Atomic: a pod that starts between our look and our removal writes a marker of its own, which must stay.
_REMOVE = """
local model, run = redis.call('HGET', KEYS[1], ARGV[1]), redis.call('HGET', KEYS[1], ARGV[2])
if (model or '') == ARGV[3] and (run or '') == ARGV[4] then return redis.call('UNLINK', KEYS[1]) end
return 0
"""


@dataclass(frozen=True)
class Marker:
    """Empty where the marker does not say."""

    model: str
    run: str


def read_marker(client: Any, prefix: str, version: str) -> Marker | None:
    """The version's marker; None where it has none, and an empty one where something else lies under its key."""
    from redis.exceptions import ResponseError

    try:
        fields = client.hgetall(marker_key(prefix, version))
    except ResponseError as error:
        if not str(error).startswith("WRONGTYPE"):
            raise
        return Marker("", "")
    return Marker(fields.get(MARKER_MODEL, ""), fields.get(MARKER_RUN, "")) if fields else None


def markers(client: Any, prefix: str) -> dict[str, Marker]:
    """All markers under the prefix, by version."""
    pattern = f"{literal(marker_key(prefix, ''))}*"
    versions = {version_of(prefix, key) for page in pages(client, pattern) for key in page} - {None}
    found = {str(version): read_marker(client, prefix, str(version)) for version in versions}
    return {version: marker for version, marker in found.items() if marker}


def remove_marker(client: Any, prefix: str, version: str, marker: Marker) -> bool:
    """Remove the marker unless it says something else by now; True when it was removed."""
    arguments = (MARKER_MODEL, MARKER_RUN, marker.model, marker.run)
    return bool(client.eval(_REMOVE, 1, marker_key(prefix, version), *arguments))
