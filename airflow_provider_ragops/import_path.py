"""Objects named by an import path ``package.module:attribute``: a DAG names them, only the task imports them."""

from __future__ import annotations

import importlib
from typing import Any

from airflow_provider_ragops.exceptions import ConfigurationError


def load(path: str, *, subject: str, expected: str) -> Any:
    """Import the object; ``subject`` and ``expected`` name it in the error (``contract``, ``a Pandera schema``).

    :raises ConfigurationError: when the path leads to nothing.
    """
    module, _, attribute = path.partition(":")
    try:
        return getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise refusal(path, subject=subject, expected=expected, seen=f"{type(error).__name__}: {error}") from error


def refusal(path: str, *, subject: str, expected: str, seen: str) -> ConfigurationError:
    return ConfigurationError(
        f"{subject} {path!r}", expected=f"package.module:attribute naming {expected}", seen=seen,
        action="Correct the import path; the module must lie beside the DAG or be installed.",
    )
