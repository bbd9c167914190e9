"""Opens a Feast feature repository and reads its definitions without changing this process' directory or path."""

from __future__ import annotations

import importlib.util
import os
import string
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_provider_ragops.contract import digest
from airflow_provider_ragops.exceptions import ConfigurationError, MissingExtraError, UnreachableError

if TYPE_CHECKING:
    from feast import FeatureStore

CONFIG_FILE = "feature_store.yaml"


def open_store(repo: Path, variables: Mapping[str, str]) -> FeatureStore:
    """Open the repository's store; ``${NAME}`` in its YAML comes from ``variables``, then from the environment.

    Values are put into the texts of the parsed file, so whatever they hold, they stay values, and texts.

    :raises ConfigurationError: when the file is missing, a variable is unset or Feast refuses the settings. No
        error repeats a value, because one of them is Redis' password.
    :raises UnreachableError: when the registry's database does not answer.
    """
    try:
        import feast
        from feast.errors import FeastError
        from sqlalchemy.exc import InterfaceError, OperationalError, SQLAlchemyError
    except ImportError as error:
        raise MissingExtraError.of(f"feature repository {repo}", "feast", "feast") from error
    settings = _read(repo)
    try:
        settings = _filled(settings, {**os.environ, **variables})
    except KeyError as error:
        raise _error(repo, f"a value for ${{{error.args[0]}}}", "none", "Set it in the Feast connection.") from error
    except ValueError as error:  # its text tells a position and no content
        raise _error(repo, "only ${NAME}, and $$ for a dollar sign", str(error), f"Correct {CONFIG_FILE}.") from error
    try:
        store = feast.FeatureStore(config=feast.RepoConfig(**settings, repo_path=repo))
        _ = store.registry  # opened at its first use: here, where its address can be named
        return store
    except (OperationalError, InterfaceError) as error:  # the text repeats the URL, and with it a password
        raise UnreachableError(
            f"SQL registry of feature repository {repo}", expected="a database that answers",
            seen=type(error.orig or error).__name__,
            action="Check registry_url in the Feast connection: host, database, user and password, and that it runs.",
        ) from None
    except (SQLAlchemyError, ModuleNotFoundError) as error:
        raise _error(
            repo, "a registry_url that SQLAlchemy knows, and its driver installed", type(error).__name__,
            "Correct registry_url in the Feast connection, or install its driver.",
        ) from None
    except (FeastError, ValueError, TypeError) as error:
        raise _error(
            repo, f"a valid {CONFIG_FILE}", _kind_of(error), "Correct the settings that it names, or the connection."
        ) from None


def _read(repo: Path) -> dict[str, Any]:
    import yaml

    try:
        settings = yaml.safe_load((repo / CONFIG_FILE).read_text())
    except (OSError, UnicodeError) as error:
        raise _error(repo, f"a valid {CONFIG_FILE}", str(error), "Correct the path or the file.") from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        seen = f"no YAML in line {mark.line + 1}, column {mark.column + 1}" if mark else "no YAML"
        raise _error(repo, f"a valid {CONFIG_FILE}", seen, "Correct the file.") from None
    if not isinstance(settings, dict):
        raise _error(repo, f"a mapping in {CONFIG_FILE}", type(settings).__name__, "Correct the file.")
    return settings


def _filled(value: Any, variables: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        return string.Template(value).substitute(variables)
    if isinstance(value, dict):
        return {name: _filled(one, variables) for name, one in value.items()}
    if isinstance(value, list):
        return [_filled(one, variables) for one in value]
    return value


def _kind_of(error: Exception) -> str:
    """The error without values: its class, and from pydantic which settings it is about."""
    from pydantic import ValidationError

    if not isinstance(error, ValidationError):
        return type(error).__name__
    return ", ".join(f"{'.'.join(map(str, each['loc']))}: {each['type']}" for each in error.errors())


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
