"""The serving tier's Helm chart on the demo's cluster, and the namespaces that the demo makes for it."""

from __future__ import annotations

import time
from typing import Any

from demo.cluster import Cluster
from demo.errors import DemoError
from demo.images import Images
from demo.paths import ROOT

CHART = ROOT / "docker" / "chart"
RELEASE = "mlflow-serve"
SERVING_NAMESPACE = "ml-serving"
TRAINING_NAMESPACE = "ml-workloads"
OURS = {"airflow-provider-ragops/demo": "true"}


def install(cluster: Cluster, images: Images, mlflow_uri: str) -> None:
    """Install the chart, or upgrade it where it is; an upgrade changes no model version.

    :raises DemoError: with Helm's reason.
    """
    from helm_python import Config, HelmError

    for name in (SERVING_NAMESPACE, TRAINING_NAMESPACE):
        _make_namespace(cluster, name)
    repository, _, tag = images.serving.rpartition(":")
    values = {
        "image": {"repository": repository, "tag": tag},
        "mlflow": {"trackingUri": mlflow_uri},
        "training": {"namespace": TRAINING_NAMESPACE},
    }
    try:
        with Config(kubeconfig_path=cluster.kubeconfig, namespace=SERVING_NAMESPACE) as helm:
            installed = any(release["name"] == RELEASE for release in helm.list(all_states=True))
            action = helm.upgrade if installed else helm.install
            action(CHART, RELEASE, values, namespace=SERVING_NAMESPACE, timeout=60)
    except HelmError as error:
        raise DemoError(f"chart {CHART.name}: could not be installed into {SERVING_NAMESPACE}: {error}") from error


def remove(cluster: Cluster) -> None:
    """Uninstall the chart and delete the namespaces that the demo made; others are left."""
    from helm_python import Config, HelmError

    try:
        with Config(kubeconfig_path=cluster.kubeconfig, namespace=SERVING_NAMESPACE) as helm:
            helm.uninstall(RELEASE, ignore_not_found=True, timeout=60)
    except HelmError as error:
        raise DemoError(f"chart {RELEASE}: could not be removed from {SERVING_NAMESPACE}: {error}") from error
    core = _core(cluster)
    selector = ",".join(f"{key}={value}" for key, value in OURS.items())
    names = [one.metadata.name for one in core.list_namespace(label_selector=selector, _request_timeout=10).items]
    for name in names:
        core.delete_namespace(name, _request_timeout=10)
    deadline = time.monotonic() + 120
    while left := {one.metadata.name for one in core.list_namespace(_request_timeout=10).items} & set(names):
        if time.monotonic() > deadline:
            raise DemoError(f"namespaces {sorted(left)}: still being deleted after 120 s. Look at what is in them.")
        time.sleep(1)


def cluster_uid(cluster: Cluster) -> str:
    """What tells this cluster from one that was made anew at the same address."""
    return str(_core(cluster).read_namespace("kube-system", _request_timeout=10).metadata.uid)


def _make_namespace(cluster: Cluster, name: str) -> None:
    from kubernetes.client import ApiException

    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": OURS}}
    try:
        _core(cluster).create_namespace(body, _request_timeout=10)
    except ApiException as error:
        if error.status != 409:  # it exists
            raise DemoError(f"namespace {name}: could not be made: {error.status} {error.reason}") from error


def _core(cluster: Cluster) -> Any:
    from kubernetes import client, config

    return client.CoreV1Api(config.new_client_from_config(str(cluster.kubeconfig)))
