"""Keep what one test leaves in the process from the next: environment variables and MLflow's global addresses."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

# MLflow keeps the addresses set last in these modules, and in the environment for its subprocesses.
GLOBALS = (
    ("mlflow.tracking._tracking_service.utils", "_tracking_uri"),
    ("mlflow.tracking._model_registry.utils", "_registry_uri"),
    ("mlflow.tracking.fluent", "_active_experiment_id"),
)


@contextmanager
def process_state_kept() -> Iterator[None]:
    """After the block the environment and MLflow's globals are what they were before it."""
    before = {name: getattr(sys.modules.get(module), name, None) for module, name in GLOBALS}
    with mock.patch.dict(os.environ):
        yield
    for module, name in GLOBALS:
        if loaded := sys.modules.get(module):
            setattr(loaded, name, before[name])
