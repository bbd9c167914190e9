from __future__ import annotations

import json

import pytest

from airflow_provider_ragops.exceptions import ConfigurationError, RegistryError
from airflow_provider_ragops.hooks.mlflow import MlflowHook
from tests.stores import register


def test_missing_things_are_none_or_named(mlflow_store: MlflowHook) -> None:
    """M6: a missing model or alias is None; a missing version is an error that names it and the server."""
    registry = mlflow_store.registry()
    assert registry.alias("Churn", "champion") is None
    register(mlflow_store)
    assert registry.alias("Churn", "champion") is None

    with pytest.raises(RegistryError, match=r"version 7 of model 'Churn' at sqlite:.*connection 'mlflow_default'"):
        registry.version("Churn", "7")


def test_alias_moves_and_goes(mlflow_store: MlflowHook) -> None:
    """M8: setting an alias again changes nothing; deleting it twice is no error."""
    registry, first, second = mlflow_store.registry(), register(mlflow_store), register(mlflow_store)
    for version in (first, second, second):
        registry.set_alias("Churn", "champion", version)
    assert registry.alias("Churn", "champion") == second == "2"

    registry.delete_alias("Churn", "champion")
    registry.delete_alias("Churn", "champion")
    assert registry.alias("Churn", "champion") is None


def test_alias_of_a_deleted_version_is_none(mlflow_store: MlflowHook) -> None:
    """M6: the champion's version was deleted: there is no champion, and that is said plainly."""
    registry, version = mlflow_store.registry(), register(mlflow_store)
    registry.set_alias("Churn", "champion", version)
    mlflow_store.client().delete_model_version("Churn", version)

    assert registry.alias("Churn", "champion") is None


@pytest.mark.parametrize("alias", ["latest", "v3", "V12"])
def test_reserved_aliases_are_refused(mlflow_store: MlflowHook, alias: str) -> None:
    """M11: MLflow would answer for 'latest' with whatever is newest; reading and setting are refused."""
    registry, version = mlflow_store.registry(), register(mlflow_store)

    with pytest.raises(ConfigurationError, match=f"alias '{alias}'"):
        registry.alias("Churn", alias)
    with pytest.raises(ConfigurationError, match=f"alias '{alias}'"):
        registry.set_alias("Churn", alias, version)


def test_versions_are_found_by_exact_tags(mlflow_store: MlflowHook) -> None:
    """M1: all versions with a registration key are found, newest first; other case or other tags are not."""
    registry = mlflow_store.registry()
    for key in ("abc", "ABC", "abc", "it's"):
        register(mlflow_store, tags={"ragops.registration_key": key, "ragops.partition": "2026-11-29"})
    register(mlflow_store, model="Other", tags={"ragops.registration_key": "abc"})

    def found(**tags: str) -> list[str]:
        return [each.version for each in registry.find("Churn", {f"ragops.{key}": tags[key] for key in tags})]

    assert found(registration_key="abc", partition="2026-11-29") == ["3", "1"]
    assert found(registration_key="it's") == ["4"]
    assert found(registration_key="abc", partition="2026-11-28") == []
    with pytest.raises(ConfigurationError, match="quotation mark"):
        found(registration_key="'\"")


def test_more_versions_than_a_page_are_read(mlflow_store: MlflowHook, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading goes on to the last page."""
    monkeypatch.setattr("airflow_provider_ragops.promotion.registry._PAGE", 2)
    for _ in range(5):
        register(mlflow_store, tags={"k": "v"})

    assert [each.version for each in mlflow_store.registry().find("Churn", {"k": "v"})] == ["5", "4", "3", "2", "1"]


def test_tags_and_run_are_read_back(mlflow_store: MlflowHook) -> None:
    """What was written is what a version says: tags replaced, its run, the run's metrics."""
    run_id = mlflow_store.start_run("churn", "train", {})
    mlflow_store.client().log_metric(run_id, "auc", 0.75)
    registry, version = mlflow_store.registry(), register(mlflow_store, tags={"a": "1"}, run_id=run_id)

    registry.set_tags("Churn", version, {"a": "2", "ragops.completed": "x"})

    found = registry.version("Churn", version)
    assert dict(found.tags) == {"a": "2", "ragops.completed": "x"}
    assert found.run_id == run_id
    assert registry.metrics("Churn", version) == {"auc": 0.75}


def _with_example(hook: MlflowHook, text: str | None) -> str:
    run_id = hook.start_run("churn", "train", {})
    hook.client().log_text(run_id, "flavors: {}", "model/MLmodel")
    if text is not None:
        hook.client().log_text(run_id, text, "model/serving_input_example.json")
    return register(hook, run_id=run_id)


def test_input_example_is_the_body_of_a_request(mlflow_store: MlflowHook) -> None:
    """The logged example comes back as it is sent to a pod."""
    body = {"dataframe_split": {"columns": ["a"], "data": [[1.0]]}}

    assert mlflow_store.registry().input_example("Churn", _with_example(mlflow_store, json.dumps(body))) == body


@pytest.mark.parametrize(
    ("text", "seen"),
    [(None, "no such file"), ("[" + " " * (1 << 20) + "]", "1048578 bytes"), ("{", "not JSON"), ("[1]", "a list")],
    ids=["absent", "too large", "truncated", "no object"],
)
def test_unusable_input_example_is_refused(mlflow_store: MlflowHook, text: str | None, seen: str) -> None:
    """M4: a version without a usable example can't be checked in a pod; the error says how to log one."""
    version = _with_example(mlflow_store, text)

    with pytest.raises(RegistryError, match=f"input example of version 1.*saw {seen}.*input_example="):
        mlflow_store.registry().input_example("Churn", version)
