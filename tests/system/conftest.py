"""A whole loop for the system tests: Airflow's scheduler, MLflow, Redis, the cluster and a serving tier of its own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import date, datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from demo import access, data, pipeline, services
from demo import cluster as clusters
from demo.airflow_api import AirflowApi
from demo.background import Background, Service
from demo.chart import ServingTier
from demo.images import Images
from demo.inspection import World
from demo.paths import ROOT
from demo.pipeline import Pipeline
from demo.settings import Settings

from airflow_provider_ragops.contract import ServingTarget

if TYPE_CHECKING:
    from tests.system.drill import Drill

#: A second target of the shipped DAGs, which only the drills release to (see ``drill.py``).
DRILL = ServingTarget("ml-serving-drill", "drill")


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
        given_redis=None, tier=tier, state=tmp_path_factory.mktemp("loop"), schedule=daily(),
    )
    background = Background(settings.state)
    try:
        tier.remove()
        days = data.partitions(settings.data)
        for service in (settings.mlflow(), settings.redis(), with_drill(settings.airflow(images))):
            if service:
                background.start(service)
        tier.install(images, settings.mlflow_uri)
        access.write_kubeconfig(tier, settings.airflow_kubeconfig)
        api = AirflowApi(
            f"http://127.0.0.1:{settings.airflow_port}", "admin", services.admin_password(settings.airflow_home)
        )
        api.unpause(pipeline.DAG)
        yield Loop(api, Pipeline(api, print), World(settings), settings, days)
    finally:
        background.stop_all()
        tier.remove(wait=False)


def daily() -> str:
    """Cron of a daily schedule twelve hours from now, so that it starts nothing in the middle of a test."""
    return f"0 {(datetime.now(timezone.utc).hour + 12) % 24} * * *"


def with_drill(airflow: Service) -> Service:
    """Airflow with the drill's target among its own, and with the drill's DAGs beside the shipped ones."""
    kind = "airflow.dag_processing.bundles.local.LocalDagBundle"
    folders = [ROOT / "dags", Path(__file__).parent / "dags"]
    bundles = [{"name": str(path), "classpath": kind, "kwargs": {"path": str(path)}} for path in folders]
    return replace(airflow, env={
        **airflow.env, "AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST": json.dumps(bundles),
        # Runs that wait for the lock each take a slot.
        "AIRFLOW__CORE__PARALLELISM": "8",
        "RAGOPS_TARGETS": json.dumps({"drill": DRILL.as_dict()}),
        "DRILL_SCHEDULE": daily(),
    })


@pytest.fixture(scope="session")
def drill(airflow_standalone: Loop, images: Images) -> Iterator[Drill]:
    """The target ``drill``, where version 1 was released; the drill's DAGs run, and so does the form's."""
    from tests.system.drill import made

    with made(airflow_standalone, images.serving) as found:
        yield found
