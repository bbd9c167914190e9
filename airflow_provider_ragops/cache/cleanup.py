"""Remove the Redis keys of model versions that nothing refers to any more.

Only exact key prefixes of one version are touched (``v1:`` does not match ``v10:``), and only where the version's
marker names our model. The marker goes last, so an interrupted clean-up is found again by the next one.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from typing import Any

from airflow_provider_ragops.contract import marker_key, version_patterns

log = logging.getLogger(__name__)

_BATCH = 500
_PASSES = 10


def clean_versions(client: Any, prefix: str, model: str, keep: set[str]) -> dict[str, int]:
    """Delete the keys of all versions of ``model`` but those in ``keep``; returns the number of keys by version.

    :param client: a ``redis.Redis`` (or cluster) client with timeouts and decoded responses.
    """
    found = _versions(client, prefix)
    counts = {}
    for version in sorted(found - keep):
        owner = client.hget(marker_key(prefix, version), "model")
        if owner != model:
            log.warning("keys of version %s under %r belong to %s: left alone", version, prefix, owner or "nobody")
            continue
        counts[version] = _delete(client, prefix, version)
        log.info("removed %d keys of version %s", counts[version], version)
    return counts


def _versions(client: Any, prefix: str) -> set[str]:
    shape = re.compile(re.escape(prefix) + r"rag_(?:decompose|store|meta):v(\d+)(?::|$)")
    keys = client.scan_iter(match=f"{_literal(prefix)}rag_*", count=_BATCH)
    return {match[1] for match in map(shape.match, keys) if match}


def _delete(client: Any, prefix: str, version: str) -> int:
    """Repeat until a pass finds nothing: a pod that was just ending may have written behind the first pass."""
    removed, gone = 0, 0
    for _ in range(_PASSES):
        gone = sum(int(client.unlink(*batch)) for start in version_patterns(prefix, version)
                   for batch in _batches(client.scan_iter(match=f"{_literal(start)}*", count=_BATCH)))
        removed += gone
        if not gone:
            return removed + int(client.unlink(marker_key(prefix, version)))
    log.warning("keys of version %s keep coming back: someone still writes them; its marker stays", version)
    return removed


def _batches(keys: Iterator[str]) -> Iterator[list[str]]:
    batch: list[str] = []
    for key in keys:
        batch.append(key)
        if len(batch) == _BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


def _literal(text: str) -> str:
    """Quote SCAN's glob characters: a prefix is data, not a pattern."""
    return re.sub(r"([*?\[\]^\\-])", r"\\\1", text)
