"""How keys are found: page by page, on every primary of a cluster, with patterns that match exactly one version."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from airflow_provider_ragops.contract import version_patterns

PAGE = 1000

_SHAPE = re.compile(r"rag_(?:(?:decompose|store):v([0-9]+):|meta:v([0-9]+)\Z)")


def pages(client: Any, pattern: str) -> Iterator[list[str]]:
    """Yield what each SCAN call finds, also where that is nothing: between two calls the caller looks at its clock.

    A key may come twice. The primaries of a cluster take turns, so that the first pages are a sample of all.
    """
    primaries = getattr(client, "get_primaries", None)
    nodes = {node.name: node for node in primaries()} if primaries else {"": None}
    cursors = dict.fromkeys(nodes, 0)
    while cursors:
        for name in list(cursors):
            cursors[name], keys = _page(client, pattern, nodes[name], cursors[name])
            if not cursors[name]:
                del cursors[name]
            yield keys


def _page(client: Any, pattern: str, node: Any, cursor: int) -> tuple[int, list[str]]:
    if node is None:
        following, keys = client.scan(cursor, match=pattern, count=PAGE)
        return int(following), keys
    following, keys = client.scan(cursor, match=pattern, count=PAGE, target_nodes=node)
    return int(following[node.name]), keys


def patterns(prefix: str, version: str) -> tuple[str, ...]:
    """SCAN patterns for all keys of one version but its marker."""
    return tuple(f"{literal(start)}*" for start in version_patterns(prefix, version))


def literal(text: str) -> str:
    """Quote SCAN's glob characters: a prefix is data, not a pattern."""
    return re.sub(r"([*?\[\]^\\-])", r"\\\1", text)


def version_of(prefix: str, key: str) -> str | None:
    """The version whose key, or marker, this is; None for a key that carries no version where it must."""
    if not key.startswith(prefix):
        return None
    found = _SHAPE.match(key, len(prefix))
    return (found[1] or found[2]) if found else None
