"""A whole loop for the system tests: Airflow's scheduler, MLflow, Redis, the cluster and a serving tier of its own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date

import pytest
from demo import cluster as clusters
from demo import data, pipeline, services
from demo.airflow_api import AirflowApi
from demo.background import Background
from demo.chart import ServingTier
from demo.images import Images
from demo.inspection import World
from demo.pipeline import Pipeline
from demo.settings import Settings


@dataclass(frozen=True)
class Loop:
    """``pipeline`` triggers runs and waits for them; ``world`` says what is served; ``days`` have data."""

    api: AirflowApi
    pipeline: Pipeline
    world: World
    settings: Settings
    days: list[date]


@pytest.fixture(scope="session")
def airflow_standalone(
    cluster: clusters.Cluster, images: Images, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Loop]:
    """The demo's parts in a place of their own, the schedule on. Mark the test ``cluster`` and ``images``.

    MLflow and Redis are not the session's: the DAG's model has one name, which other tests register too.
    """
    tier = ServingTier(cluster, "ml-serving-system", "ml-workloads-system")
    settings = Settings(
        host=cluster.node_ip, mlflow_port=services.free_port(cluster.node_ip),
        redis_port=services.free_port(cluster.node_ip), airflow_port=services.free_port("127.0.0.1"),
        given_redis=None, tier=tier, state=tmp_path_factory.mktemp("loop"), schedule="on",
    )
    background = Background(settings.state)
    try:
        tier.remove()
        days = data.partitions(settings.data)
        for service in (settings.mlflow(), settings.redis(), settings.airflow(images)):
            if service:
                background.start(service)
        tier.install(images, settings.mlflow_uri)
        api = AirflowApi(
            f"http://127.0.0.1:{settings.airflow_port}", "admin", services.admin_password(settings.airflow_home)
        )
        api.unpause(pipeline.DAG)
        yield Loop(api, Pipeline(api, print), World(settings), settings, days)
    finally:
        background.stop_all()
        tier.remove(wait=False)
