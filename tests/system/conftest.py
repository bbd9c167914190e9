"""A whole loop for the system tests: Airflow's scheduler, MLflow, Redis, the cluster and a serving tier of its own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from urllib.parse import urlsplit

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

from tests.server import Server


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
    background: Background, cluster: clusters.Cluster, images: Images, mlflow_server: Server, redis_server: Server,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Loop]:
    """The demo's parts in a place of their own. Mark the test ``cluster`` and ``images``."""
    tier = ServingTier(cluster, "ml-serving-system", "ml-workloads-system")
    tier.remove()
    settings = Settings(
        host=cluster.node_ip, mlflow_port=urlsplit(mlflow_server.uri).port or 0, redis_port=0,
        airflow_port=services.free_port("127.0.0.1"), given_redis=redis_server.url, tier=tier,
        state=tmp_path_factory.mktemp("loop"), schedule="on",
    )
    days = data.partitions(settings.data)
    tier.install(images, settings.mlflow_uri)
    service = settings.airflow(images)
    background.start(service)
    api = AirflowApi(service.address, "admin", services.admin_password(settings.airflow_home))
    api.unpause(pipeline.DAG)
    yield Loop(api, Pipeline(api, print), World(settings), settings, days)
    background.stop(service.name)
    tier.remove()
