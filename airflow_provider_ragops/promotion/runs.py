"""Experiments and runs of MLflow: found by tags, created once, read page by page."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from airflow_provider_ragops.exceptions import ConfigurationError, RegistryError
from airflow_provider_ragops.promotion.faults import named_faults

_PAGE = 200


class MlflowRuns:
    """Runs on an ``MlflowClient``; ``where`` names the server in errors."""

    def __init__(self, client: Any, where: str) -> None:
        self._client = client
        self._where = where

    def experiment_id(self, name: str, *, create: bool = False) -> str | None:
        """The experiment's id; None where it does not exist, unless ``create``.

        :raises RegistryError: when the experiment was deleted: MLflow keeps its name taken.
        """
        with named_faults(f"experiment {name!r}", self._where):
            found = self._client.get_experiment_by_name(name)
            if found is None and create:
                return self._create_experiment(name)
        if found is not None and found.lifecycle_stage != "active":
            raise RegistryError(
                f"experiment {name!r} at {self._where}", expected="an active experiment",
                seen="a deleted one that still holds the name", action="Restore it, or choose another name.",
            )  # fmt: skip
        return found and str(found.experiment_id)

    def _create_experiment(self, name: str) -> str:
        from mlflow.exceptions import MlflowException

        try:
            return str(self._client.create_experiment(name))
        except MlflowException as error:
            if error.error_code != "RESOURCE_ALREADY_EXISTS":
                raise
            return str(self._client.get_experiment_by_name(name).experiment_id)  # someone was faster

    def find(self, experiment: str, tags: Mapping[str, str], status: str | None = None) -> Any | None:
        """The newest run with all these tags, or None. ``status`` None takes any, unfinished ones included."""
        experiment_id = self.experiment_id(experiment)
        return next(self.search([experiment_id], tags, status=status), None) if experiment_id else None

    def search(
        self,
        experiment_ids: list[str],
        tags: Mapping[str, str],
        *,
        status: str | None = None,
        extra: str = "",
        order: str = "attributes.start_time DESC",
    ) -> Iterator[Any]:
        """Yield runs in the given order, newest first by default, reading pages as they are needed."""
        query = " and ".join(filter(None, [filter_of(tags, {"attributes.status": status}), extra]))
        with named_faults(f"runs where {query}", self._where):
            yield from pages(
                lambda token: self._client.search_runs(
                    experiment_ids, query, max_results=_PAGE, order_by=[order], page_token=token
                )
            )

    def start(
        self, experiment: str, name: str, tags: Mapping[str, str], start_time_ms: int | None = None
    ) -> str:
        """Create a run (the experiment too where it is missing) and return its id; it stays RUNNING."""
        experiment_id = self.experiment_id(experiment, create=True)
        with named_faults(f"run {name!r} in experiment {experiment!r}", self._where):
            run = self._client.create_run(experiment_id, start_time_ms, dict(tags), name)
            return str(run.info.run_id)

    def end(self, run_id: str, status: str = "FINISHED", end_time_ms: int | None = None) -> None:
        """Set the run's final status: FINISHED or FAILED."""
        with named_faults(f"run {run_id!r}", self._where):
            self._client.set_terminated(run_id, status, end_time_ms)


def pages(read: Callable[[str | None], Any]) -> Iterator[Any]:
    """Yield every item of a paged answer; ``read`` gets a page token (None for the first page)."""
    token = None
    while True:
        page = read(token)
        yield from page
        token = page.token
        if not token:
            return


def filter_of(tags: Mapping[str, str], fields: Mapping[str, str | None]) -> str:
    """MLflow's filter text for equal tags and fields; fields that are None are left out."""
    terms = [f"{key} = {_quoted(value)}" for key, value in fields.items() if value is not None]
    return " and ".join(terms + [f"tags.`{key}` = {_quoted(value)}" for key, value in tags.items()])


def _quoted(value: str) -> str:
    for mark in ("'", '"'):
        if mark not in value:
            return f"{mark}{value}{mark}"
    raise ConfigurationError(
        f"search for {value!r}", expected="a text without both kinds of quotation mark", seen=value,
        action="MLflow's filters have no way to quote it: choose another name.",
    )  # fmt: skip
