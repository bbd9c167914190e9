"""Snapshot files: their path, which must be local, and how one is published.

History is read through fsspec from any storage. Snapshots are not: Feast's duckdb store and our own read-backs open
the files by their path, so they lie on a local or mounted path that every worker sees.
"""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_provider_ragops.exceptions import ConfigurationError

if TYPE_CHECKING:
    from feast import FeatureView


def local_path(subject: str, location: str) -> str:
    """Take a path of snapshots, or a ``file://`` URL of one; ``subject`` names it in the error.

    :raises ConfigurationError: when it is empty, or another URL.
    """
    path = location.removeprefix("file://")
    if not path or path == "None" or "://" in path:
        raise ConfigurationError(
            subject, expected="a local or mounted path", seen=repr(location),
            action="Mount the storage on every worker and give that path: Feast's duckdb store opens files by path.",
        )
    return path


def local_source(view: FeatureView) -> str:
    """The path (with wildcards) of the files under a feature view.

    :raises ConfigurationError: when the view's source has no path, or an URL.
    """
    return local_path(f"source of feature view {view.name}", str(getattr(view.batch_source, "path", "")))


def publish(path: Path, content: bytes) -> None:
    """Write a file whole or not at all: it is renamed into place."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")  # two writers at once must not share one
    temporary.write_bytes(content)
    temporary.replace(path)
