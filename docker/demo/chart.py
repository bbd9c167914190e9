"""The serving tier's Helm chart on a cluster, and the namespaces that are made for it."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import Any

from demo.cluster import Cluster
from demo.errors import DemoError
from demo.images import Images
from demo.paths import ROOT

CHART = ROOT / "docker" / "chart"
RELEASE = "mlflow-serve"
OURS = {"airflow-provider-ragops/demo": "true"}  # the label of namespaces that we made, and so may delete


@dataclass(frozen=True)
class ServingTier:
    """One installation: pods that serve in ``namespace``, training pods in ``training``."""

    cluster: Cluster
    namespace: str = "ml-serving"
    training: str = "ml-workloads"

    @classmethod
    def of(cls, cluster: Cluster) -> ServingTier:
        """In the namespaces of ``RAGOPS_SERVING_NAMESPACE`` and ``RAGOPS_TRAINING_NAMESPACE``, or the defaults."""
        serving, training = (os.environ.get(f"RAGOPS_{use}_NAMESPACE") for use in ("SERVING", "TRAINING"))
        return cls(cluster, serving or cls.namespace, training or cls.training)

    @property
    def namespaces(self) -> dict[str, str]:
        return {"namespace": self.namespace, "training": self.training}

    def check(self) -> None:
        """A namespace that others made may hold a team's own serving tier: only ours are touched.

        On the local node everything is ours.

        :raises DemoError: naming the namespace that is there without our label.
        """
        if self.cluster.kind == "local":
            return
        for name in (self.namespace, self.training):
            labels = _labels(self.cluster, name)
            if labels is not None and not OURS.items() <= labels.items():
                raise DemoError(
                    f"namespace {name} on the cluster of {self.cluster.kubeconfig}: expected none, or one that the "
                    f"demo made (label {_selector()}); it is there without that label, and was left as it is. "
                    "Name others in RAGOPS_SERVING_NAMESPACE and RAGOPS_TRAINING_NAMESPACE."
                )

    def install(self, images: Images, mlflow_uri: str) -> None:
        """Install the chart, or upgrade it where it is; an upgrade changes no model version.

        :raises DemoError: with Helm's reason, or as ``check``.
        """
        from helm_python import Config, HelmError

        self.check()
        for name in (self.namespace, self.training):
            self._make_namespace(name)
        repository, _, tag = images.serving.rpartition(":")
        values = {
            "image": {"repository": repository, "tag": tag},
            "mlflow": {"trackingUri": mlflow_uri},
            "training": {"namespace": self.training},
        }
        try:
            with Config(kubeconfig_path=self.cluster.kubeconfig, namespace=self.namespace) as helm:
                installed = any(release["name"] == RELEASE for release in helm.list(all_states=True))
                action = helm.upgrade if installed else helm.install
                action(CHART, RELEASE, values, namespace=self.namespace, timeout=60)
        except HelmError as error:
            raise DemoError(f"chart {CHART.name}: not installed into {self.namespace}: {error}") from error

    def remove(self, *, wait: bool = True) -> None:
        """Uninstall the chart, and delete its namespaces where they are ours. Safe to repeat.

        :param wait: until they are gone, so that they can be made again; a pod may take its grace period.
        :raises DemoError: when it does not go in two minutes, or as ``check``.
        """
        from helm_python import Config, HelmError

        self.check()
        try:
            with Config(kubeconfig_path=self.cluster.kubeconfig, namespace=self.namespace) as helm:
                helm.uninstall(RELEASE, ignore_not_found=True, timeout=60)
        except HelmError as error:
            raise DemoError(f"chart {RELEASE}: not removed from {self.namespace}: {error}") from error
        for name in self._our_namespaces():
            _core(self.cluster).delete_namespace(name, _request_timeout=10)
        deadline = time.monotonic() + 120
        while wait and (left := self._our_namespaces()):
            if time.monotonic() > deadline:
                raise DemoError(f"namespaces {left}: still being deleted after 120 s. Look at what is in them.")
            time.sleep(1)

    def _our_namespaces(self) -> list[str]:
        found = _core(self.cluster).list_namespace(label_selector=_selector(), _request_timeout=10).items
        return sorted({one.metadata.name for one in found} & {self.namespace, self.training})

    def _make_namespace(self, name: str) -> None:
        from kubernetes.client import ApiException

        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": OURS}}
        try:
            _core(self.cluster).create_namespace(body, _request_timeout=10)
        except ApiException as error:
            if error.status != 409:  # it exists
                raise DemoError(f"namespace {name}: could not be made: {error.status} {error.reason}") from error


def cluster_uid(cluster: Cluster) -> str:
    """What tells this cluster from one that was made anew at the same address."""
    return str(_core(cluster).read_namespace("kube-system", _request_timeout=10).metadata.uid)


def _selector() -> str:
    return ",".join(f"{key}={value}" for key, value in OURS.items())


def _labels(cluster: Cluster, namespace: str) -> dict[str, str] | None:
    """None where there is no such namespace."""
    from kubernetes.client import ApiException

    try:
        return _core(cluster).read_namespace(namespace, _request_timeout=10).metadata.labels or {}
    except ApiException as error:
        if error.status == 404:
            return None
        raise DemoError(f"namespace {namespace}: could not be read: {error.status} {error.reason}") from error


def _core(cluster: Cluster) -> Any:
    from kubernetes import client, config

    return client.CoreV1Api(config.new_client_from_config(str(cluster.kubeconfig)))
