"""Real services for the tests, each brought up once, on demand, and ended with the session.

The cluster and its images take minutes on a fresh machine. They are prepared in the background as soon as it is
known that a selected test needs them, and those tests run last. The cluster stays up (``make cluster-down``).
"""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import prometheus_client  # noqa: F401 - before Feast, which switches it to its multi-process mode
import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

# Airflow reads its home when it is imported: before any test module.
AIRFLOW_HOME = Path(tempfile.mkdtemp(prefix="ragops-airflow-"))
atexit.register(shutil.rmtree, AIRFLOW_HOME, ignore_errors=True)

from demo import cluster as clusters  # noqa: E402
from demo import data, services  # noqa: E402
from demo import images as image_builds  # noqa: E402
from demo.background import Background, Service  # noqa: E402
from demo.paths import ROOT  # noqa: E402

from tests.evidence import Evidence  # noqa: E402
from tests.isolation import process_state_kept  # noqa: E402
from tests.preparation import Preparation  # noqa: E402
from tests.server import Server  # noqa: E402

os.environ.update(services.QUIET | services.airflow_env(AIRFLOW_HOME, ROOT / "dags"))

SYSTEM = "tests/system/"
PREPARATION: pytest.StashKey[Preparation] = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--evidence", type=Path, default=None, help="write what was shown to this JSON file")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Evidence(config.getoption("--evidence")), "evidence")
    config.stash[PREPARATION] = Preparation()


def weight(item: pytest.Item) -> int:
    """Alone 0, a service 1, the cluster 2, the images 3."""
    needs = [item.get_closest_marker("images"), item.get_closest_marker("cluster")]
    services_used = {"host", "mlflow_server", "redis_server"} & set(getattr(item, "fixturenames", ()))
    return 3 if needs[0] else 2 if needs[1] else 1 if services_used else 0


def unit(nodeid: str) -> str:
    """What one process runs: a file, whose fixtures are shared, or all system tests, which share one Airflow."""
    file = nodeid.partition("::")[0]
    return SYSTEM if file.startswith(SYSTEM) else file


@pytest.hookimpl(trylast=True)  # after the shuffle of pytest-randomly; the sort is stable
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    heaviest: dict[str, int] = {}
    for item in items:
        heaviest[unit(item.nodeid)] = max(weight(item), heaviest.get(unit(item.nodeid), 0))
    # The system tests take longest: of what needs images they begin first, and the rest goes on beside them.
    items.sort(key=lambda item: (heaviest[unit(item.nodeid)], unit(item.nodeid) != SYSTEM))


class ByUnit(LoadScopeScheduling):
    def _split_scope(self, nodeid: str) -> str:
        return unit(nodeid)


@pytest.hookimpl
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> ByUnit:
    return ByUnit(config, log)


def pytest_collection_finish(session: pytest.Session) -> None:
    if not session.config.option.collectonly:
        for what in ("cluster", "images")[: max(0, max(map(weight, session.items), default=0) - 1)]:
            session.config.stash[PREPARATION].begin(what)


def pytest_unconfigure(config: pytest.Config) -> None:
    config.stash[PREPARATION].end()
    if not hasattr(config, "workerinput"):
        end_services(config._tmp_path_factory.getbasetemp())


def end_services(folder: Path) -> None:
    """End what the session's processes left: after Ctrl-C a worker has ten seconds, and Airflow may take longer."""
    for record in folder.glob("**/run/*.json"):
        Background(record.parent.parent).stop(record.stem)


@pytest.fixture(autouse=True, scope="module")
def _kept_by_module() -> Iterator[None]:
    """Fixtures of a module may set what all of its tests need; the next module starts without it."""
    with process_state_kept():
        yield


@pytest.fixture(autouse=True)
def _kept_by_test() -> Iterator[None]:
    with process_state_kept():
        yield


@pytest.fixture(scope="session")
def evidence(pytestconfig: pytest.Config) -> Counter[str]:
    """Counters for what a test did: ``evidence["requests"] += 5000``; also failures, schedules."""
    plugin = pytestconfig.pluginmanager.get_plugin("evidence")
    assert isinstance(plugin, Evidence)
    return plugin.counts


@pytest.fixture(scope="session")
def cluster(pytestconfig: pytest.Config) -> clusters.Cluster:
    """A real cluster: ``.kubeconfig``, and ``.node_ip``, where pods reach this machine. Mark the test ``cluster``."""
    pytestconfig.stash[PREPARATION].wait("cluster")
    return clusters.up()


@pytest.fixture(scope="session")
def images(pytestconfig: pytest.Config, cluster: clusters.Cluster) -> image_builds.Images:
    """References of ``.training`` and ``.serving`` in the cluster. Mark the test ``images``."""
    pytestconfig.stash[PREPARATION].wait("images")
    return image_builds.ready(cluster)


@pytest.fixture(scope="session")
def background(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Background]:
    """Starts services for this session only."""
    found = Background(tmp_path_factory.mktemp("services"))
    yield found
    found.stop_all()


@pytest.fixture(scope="session")
def host(request: pytest.FixtureRequest) -> str:
    """Where the services listen: pods must reach them as soon as any selected test uses the cluster."""
    if max(map(weight, request.session.items)) < 2:
        return "127.0.0.1"
    return str(request.getfixturevalue("cluster").node_ip)


@pytest.fixture(scope="session")
def mlflow_server(background: Background, host: str, tmp_path_factory: pytest.TempPathFactory) -> Server:
    """An MLflow server that also serves artifacts; ``.uri`` is its tracking URI."""
    return _started(background, services.mlflow(tmp_path_factory.mktemp("mlflow"), host, services.free_port(host)))


@pytest.fixture(scope="session")
def redis_server(background: Background, host: str, tmp_path_factory: pytest.TempPathFactory) -> Server:
    """A Valkey server; ``.url`` ends in database 0. Tests that need an empty one use a prefix or a database."""
    return _started(background, services.redis(tmp_path_factory.mktemp("redis"), host, services.free_port(host)))


def _started(background: Background, service: Service) -> Server:
    background.start(service)
    return Server(service.address)


@pytest.fixture(scope="session")
def cdnow_wheel() -> Path:
    """The wheel of Lifetimes: real purchases of 23,570 customers, read as data."""
    return data.wheel()


@pytest.fixture(scope="session")
def airflow_db() -> Path:
    """Airflow's home with a migrated SQLite database, for tests that write runs or read connections from it."""
    airflow = Path(sys.executable).with_name("airflow")
    subprocess.run([airflow, "db", "migrate"], check=True, capture_output=True, timeout=120)
    return AIRFLOW_HOME
