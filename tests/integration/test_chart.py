"""The chart on a real cluster: what it installs, what it leaves alone, and what its Roles allow."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import helm_python as helm
import pytest
from demo.paths import ROOT
from kubernetes import client, config

from airflow_provider_ragops.contract import ANNOTATION_RELEASE, ServingTarget
from airflow_provider_ragops.exceptions import ConflictError
from airflow_provider_ragops.kube import Kube
from airflow_provider_ragops.rollout.plan import Change
from airflow_provider_ragops.rollout.updater import Updater

pytestmark = pytest.mark.cluster

CHART = ROOT / "docker" / "chart"
NAME = "mlflow-serve"


@dataclass(frozen=True)
class Installed:
    """A release of the chart without pods, in namespaces of its own."""

    api: client.ApiClient
    config: helm.Config
    namespace: str
    training: str
    values: dict[str, Any]

    def upgrade(self, **values: Any) -> None:
        self.config.upgrade(CHART, NAME, self.values | values)

    @property
    def updater(self) -> Updater:
        return Updater(Kube(self.api), ServingTarget(self.namespace, "CustomerChurnPredictor"))


@pytest.fixture(scope="module")
def installed(cluster) -> Iterator[Installed]:
    api = config.new_client_from_config(str(cluster.kubeconfig))
    core = client.CoreV1Api(api)
    suffix = uuid.uuid4().hex[:8]
    namespace, training = f"chart-{suffix}", f"chart-training-{suffix}"
    values = {"replicas": 0, "training": {"namespace": training, "createNamespace": True}}
    with helm.Config(kubeconfig_path=cluster.kubeconfig, namespace=namespace) as connection:
        connection.install(CHART, NAME, values, create_namespace=True, timeout=60)
        yield Installed(api, connection, namespace, training, values)
        connection.uninstall(NAME, timeout=60)
    for name in (namespace, training):
        core.delete_namespace(name, _request_timeout=10)


def write(installed: Installed, change: Change) -> None:
    """As a release writes; the controller may have changed the status in between."""
    for _ in range(20):
        try:
            installed.updater.write(installed.updater.read(), change)
            return
        except ConflictError:
            time.sleep(0.2)
    pytest.fail("the Deployment changed 20 times in a row")


def served(installed: Installed) -> tuple[str, str, str]:
    """MODEL_VERSION, the release record, and a variable that belongs to the chart."""
    found = installed.updater.read()
    env = {one["name"]: one.get("value", "") for one in found["spec"]["template"]["spec"]["containers"][0]["env"]}
    record = found["metadata"]["annotations"].get(ANNOTATION_RELEASE, "")
    return env.get("MODEL_VERSION", ""), record, env["SERVING_CONCURRENCY"]


def test_helm_changes_no_version(installed: Installed) -> None:
    """R3: helm upgrade and helm rollback after a release keep MODEL_VERSION and the record, and change the rest."""
    write(installed, Change('{"token": 1}', "3"))
    installed.upgrade(concurrency=8)
    assert served(installed) == ("3", '{"token": 1}', "8")
    write(installed, Change('{"token": 2}', "4"))
    installed.config.rollback(NAME, version=1)
    assert served(installed) == ("4", '{"token": 2}', "4")


#: What stands around the pods, and an autoscaler whose API an old server lacks.
AROUND: dict[str, Any] = {
    "networkPolicy": {"enabled": True, "egress": {"enabled": True}},
    "ingress": {"enabled": True, "host": "models.example", "tlsSecret": "cert"},
    "monitoring": {"podMonitor": True, "rules": True},
    "service": {"port": 80},
}


def test_an_upgrade_starts_no_rollout_of_its_own(installed: Installed) -> None:
    """R3: the same values, or what stands around the pods, leave the template of the released version as it is."""
    installed.upgrade()
    write(installed, Change('{"token": 5}', "5"))
    before = installed.updater.read()
    for values in ({}, AROUND, {}):
        installed.upgrade(**values)
        after = installed.updater.read()
        assert after["spec"]["template"] == before["spec"]["template"]
        assert after["metadata"]["generation"] == before["metadata"]["generation"]
        assert after["metadata"]["annotations"][ANNOTATION_RELEASE] == '{"token": 5}'


def test_an_upgrade_of_the_pods_keeps_the_version(installed: Installed) -> None:
    """R3: times, Secrets and a GPU change the pods; the version that they serve stays the release's."""
    write(installed, Change('{"token": 6}', "6"))
    installed.upgrade(
        gpus=1, redis={"secret": "redis-login", "caSecret": "redis-ca", "cluster": True}, requestSeconds=20,
        rollout={"preStopSeconds": 9, "terminationGracePeriodSeconds": 60, "startupSeconds": 300},
    )
    pod = installed.updater.read()["spec"]["template"]["spec"]
    container = pod["containers"][0]
    assert served(installed)[:2] == ("6", '{"token": 6}')
    assert container["lifecycle"]["preStop"]["exec"]["command"][-2:] == ["9", "3"]
    assert (container["startupProbe"]["periodSeconds"], container["startupProbe"]["failureThreshold"]) == (1, 300)
    assert {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}} in pod["volumes"]
    installed.upgrade()
    assert served(installed)[:2] == ("6", '{"token": 6}')


def test_what_is_switched_on_is_there(installed: Installed) -> None:
    """The API server takes the network policy and the ingress; a cluster without Prometheus' operator gets no rules."""
    installed.upgrade(**AROUND)
    network = client.NetworkingV1Api(installed.api)
    policy = network.read_namespaced_network_policy(NAME, installed.namespace, _request_timeout=10)
    assert policy.spec.policy_types == ["Ingress", "Egress"]
    ingress = network.read_namespaced_ingress(NAME, installed.namespace, _request_timeout=10)
    assert ingress.spec.rules[0].host == "models.example"
    groups = [group.name for group in client.ApisApi(installed.api).get_api_versions(_request_timeout=10).groups]
    has_operator = "monitoring.coreos.com" in groups
    assert ("kind: PrometheusRule" in installed.config.status(NAME)["manifest"]) is has_operator
    installed.upgrade()
    assert network.list_namespaced_ingress(installed.namespace, _request_timeout=10).items == []


def can(installed: Installed, account: str, verb: str, what: str, name: str = "", namespace: str = "") -> bool:
    """Ask the API server's own authorizer. ``what``: ``group/resource/subresource``, the core group empty."""
    group, resource, subresource = (*what.split("/"), "", "")[:3]
    review = {
        "spec": {
            "user": f"system:serviceaccount:{installed.namespace}:{account}",
            "resourceAttributes": {
                "group": group, "resource": resource, "subresource": subresource, "verb": verb, "name": name,
                "namespace": namespace or installed.namespace,
            },
        }
    }
    api = client.AuthorizationV1Api(installed.api)
    return bool(api.create_subject_access_review(review, _request_timeout=10).status.allowed)


ALLOWED = [
    ("get", "apps/deployments", NAME), ("update", "apps/deployments", NAME), ("list", "apps/deployments", ""),
    ("list", "/pods", ""), ("get", "/pods/log", "any"), ("create", "/pods/proxy", "any:5000"),
    ("get", "/services/proxy", f"{NAME}:5000"), ("create", "/services/proxy", f"{NAME}:http"),
    ("create", "/configmaps", ""), ("update", "/configmaps", f"{NAME}-release-lock"), ("list", "/events", ""),
    ("create", "/pods", ""), ("delete", "/pods", "any"), ("list", "/resourcequotas", ""),
]
DENIED = [
    ("update", "apps/deployments", "another"), ("delete", "apps/deployments", NAME), ("create", "apps/deployments", ""),
    ("update", "/pods", "any"), ("create", "/pods/exec", "any"), ("update", "/resourcequotas", "any"),
    ("update", "/configmaps", "another"), ("get", "/secrets", "any"), ("list", "/secrets", ""),
    ("create", "/services/proxy", "another:5000"), ("list", "/nodes", ""),
]


@pytest.mark.parametrize(("verb", "what", "name"), ALLOWED)
def test_a_release_may_do_its_work(installed: Installed, verb: str, what: str, name: str) -> None:
    """The API server itself grants what a release does."""
    assert can(installed, "ragops-releaser", verb, what, name)


@pytest.mark.parametrize(("verb", "what", "name"), DENIED)
def test_a_release_may_do_nothing_else(installed: Installed, verb: str, what: str, name: str) -> None:
    """And refuses what it does not."""
    assert not can(installed, "ragops-releaser", verb, what, name)


def test_pods_are_run_in_the_training_namespace_only(installed: Installed) -> None:
    """Airflow's identity creates training pods there; the pods' own identities may do nothing."""
    assert can(installed, "ragops-releaser", "create", "/pods", namespace=installed.training)
    assert not can(installed, "ragops-releaser", "create", "/pods/exec", "any", namespace=installed.training)
    assert not can(installed, "ragops-releaser", "get", "/secrets", "any", namespace=installed.training)
    assert not can(installed, NAME, "get", "/pods", "any")


def test_objects_that_the_cluster_lacks_are_left_out(installed: Installed) -> None:
    """An old API server gets no PodDisruptionBudget instead of an error; a current one gets it."""
    versions = client.PolicyApi(installed.api).get_api_group(_request_timeout=10).versions
    has_policy = "policy/v1" in [version.group_version for version in versions]
    assert ("kind: PodDisruptionBudget" in installed.config.status(NAME)["manifest"]) is has_policy


def generation(installed: Installed) -> int:
    return int(installed.updater.read()["metadata"]["generation"])


def test_bad_values_change_nothing(installed: Installed) -> None:
    """A refused upgrade leaves the Deployment as it is."""
    before = generation(installed)
    for match, values in (
        ("replicas", {"replicas": "two"}),
        (r"terminationGracePeriodSeconds \(40\)", {"rollout": {"preStopSeconds": 12}}),
        ("extraEnv", {"extraEnv": [{"name": "REDIS_PASSWORD", "value": "x"}]}),
    ):
        with pytest.raises(helm.HelmError, match=match):
            installed.upgrade(**values)
    assert generation(installed) == before

