"""Opens a Feast feature repository and reads its definitions without changing this process' directory or path."""

from __future__ import annotations

import importlib.util
import os
import string
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_provider_ragops.contract import digest
from airflow_provider_ragops.exceptions import ConfigurationError, MissingExtraError

if TYPE_CHECKING:
    from feast import FeatureStore

CONFIG_FILE = "feature_store.yaml"


def open_store(repo: Path, variables: Mapping[str, str]) -> FeatureStore:
    """Open the repository's store; ``${NAME}`` in its YAML comes from ``variables``, then from the environment.

    :raises ConfigurationError: when the file is missing, a variable is unset or Feast refuses the settings.
    """
    try:
        import feast
        import yaml
    except ImportError as error:
        raise MissingExtraError.of(f"feature repository {repo}", "feast", "feast") from error
    try:
        text = string.Template((repo / CONFIG_FILE).read_text()).substitute({**os.environ, **variables})
        return feast.FeatureStore(config=feast.RepoConfig(**yaml.safe_load(text), repo_path=repo))
    except KeyError as error:
        raise _error(repo, f"a value for ${{{error.args[0]}}}", "none", "Set it in the Feast connection.") from error
    except (OSError, ValueError, TypeError) as error:
        raise _error(repo, f"a valid {CONFIG_FILE}", str(error), "Correct the path or the file.") from error


def load_definitions(repo: Path) -> list[Any]:
    """Run the repository's Python files and collect its entities, sources, views and services.

    :raises ConfigurationError: when a file fails, or there is no feature view.
    """
    import feast
    from feast.data_source import DataSource

    kinds = (feast.Entity, DataSource, feast.FeatureView, feast.FeatureService, feast.OnDemandFeatureView)
    found: list[Any] = []
    for path in sorted(repo.glob("*.py")):
        values = vars(_run(path)).values()
        found += [value for value in values if isinstance(value, kinds) and value not in found]
    if not any(isinstance(one, feast.FeatureView) for one in found):
        raise _error(repo, "at least one FeatureView", f"{len(found)} objects", "Define one in a .py file there.")
    return found


def _run(path: Path) -> Any:
    name = f"_feature_repository_{digest(str(path.resolve()))}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise _error(path, "a Python file", "a file that Python can't load", "Rename it or move it away.")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        seen = f"{type(error).__name__}: {error}"
        raise _error(path, "definitions that can be imported", seen, "Correct the file or its environment.") from error
    return module


def _error(path: Path, expected: str, seen: str, action: str) -> ConfigurationError:
    return ConfigurationError(f"feature repository {path}", expected=expected, seen=seen, action=action)
