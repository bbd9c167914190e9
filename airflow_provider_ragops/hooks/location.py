"""From a data location in a DAG to a file system and a root path: the one place that knows ObjectStoragePath."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow.sdk import ObjectStoragePath

from airflow_provider_ragops.exceptions import ConfigurationError

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem


def open_location(location: str, conn_id: str | None = None) -> tuple[AbstractFileSystem, str]:
    """Return the fsspec file system of ``location`` and the root path in it.

    :param location: a local path or an URL such as ``s3://bucket/transactions``.
    :param conn_id: the Airflow connection with the credentials; None for a location that needs none.
    :raises ConfigurationError: when the location is empty or its file system is not installed.
    """
    if not location or location == "None":
        raise ConfigurationError(
            "data location", expected="a path or an URL such as s3://bucket/folder", seen=repr(location),
            action="Set the location of the operator (in the shipped example: its environment variable).",
        )
    try:
        path = ObjectStoragePath(location, conn_id=conn_id)
        return path.fs, str(path.path).rstrip("/")
    except (ImportError, ValueError) as error:
        raise ConfigurationError(
            f"data location {location}", expected="a file system that fsspec knows", seen=str(error),
            action="Correct the URL, or install the Airflow provider of that storage.",
        ) from error
