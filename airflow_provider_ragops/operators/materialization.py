"""Brings a partition's features into the online store and proves that they are there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from airflow_provider_ragops.contract import Partition
from airflow_provider_ragops.features.materialization import SAMPLE, materialize
from airflow_provider_ragops.features.repository import load_definitions
from airflow_provider_ragops.hooks.feast import FeastHook
from airflow_provider_ragops.operators.translation import translated_errors

if TYPE_CHECKING:
    from airflow.sdk import Context


class FeastMaterializeOperator(BaseOperator):
    """
    Apply a Feast repository, materialize exactly the partition's interval, and read a sample back.

    Rerunning it changes nothing; a partition older than what is online leaves the newer rows and says so. Returns one
    report per view: ``rows``, ``checked``, ``equal``, ``kept_newer``.

    :param feature_views: names of the views; their files must lie on a local or mounted path
    :param partition: key of the partition (templated)
    :param repo: folder of feature_store.yaml; default: the connection's (templated)
    :param sample: rows to read back per view
    :param feast_conn_id: Airflow connection of type ``feast``
    """

    template_fields = ("repo", "partition")

    def __init__(
        self, *, feature_views: Sequence[str], partition: str, repo: str | None = None, sample: int = SAMPLE,
        feast_conn_id: str = "feast_default", **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.feature_views = feature_views
        self.partition = partition
        self.repo = repo
        self.sample = sample
        self.feast_conn_id = feast_conn_id

    def execute(self, context: Context) -> list[dict[str, Any]]:  # noqa: ARG002 - Airflow's signature
        with translated_errors():
            partition = Partition.parse(self.partition)
            hook = FeastHook(self.feast_conn_id, repo=self.repo)
            store = hook.store()
            reports = materialize(store, load_definitions(hook.repo), self.feature_views, partition, self.sample)
        for report in reports:
            self.log.info("View %s, partition %s: %d rows; read back %d: %d equal, %d newer ones kept",
                          report.view, report.partition, report.rows, report.checked, report.equal, report.kept_newer)
        return [report.as_dict() for report in reports]
