"""Airflow's own way into the cluster: the account ``ragops-releaser``, with the chart's Roles and nothing else."""

from __future__ import annotations

from pathlib import Path

import yaml

from demo.chart import ServingTier
from demo.errors import DemoError

ACCOUNT = "ragops-releaser"
SECONDS = 7 * 24 * 3600  # asked for; the API server may give less


def write_kubeconfig(tier: ServingTier, file: Path) -> None:
    """Write a kubeconfig with a fresh token of the account; the chart must be installed.

    :raises DemoError: when the account does not exist, or the cluster gives no tokens.
    """
    from kubernetes import config

    from airflow_provider_ragops.exceptions import RagopsError
    from airflow_provider_ragops.kube import Kube

    admin = Kube(config.new_client_from_config(str(tier.cluster.kubeconfig)))
    path = f"/api/v1/namespaces/{tier.namespace}/serviceaccounts/{ACCOUNT}/token"
    try:
        token = admin.create(path, {"spec": {"expirationSeconds": SECONDS}})["status"]["token"]
    except RagopsError as error:
        raise DemoError(f"account {ACCOUNT} in {tier.namespace}: no token for Airflow: {error}") from error
    file.parent.mkdir(parents=True, exist_ok=True)
    file.touch(mode=0o600)
    file.write_text(yaml.safe_dump({
        "apiVersion": "v1", "kind": "Config", "current-context": "airflow",
        "clusters": [{"name": "demo", "cluster": _cluster(tier.cluster.kubeconfig)}],
        "users": [{"name": ACCOUNT, "user": {"token": token}}],
        "contexts": [{"name": "airflow", "context": {"cluster": "demo", "user": ACCOUNT, "namespace": tier.namespace}}],
    }))


def _cluster(kubeconfig: Path) -> dict[str, str]:
    """The cluster of the current context; its files are named from the kubeconfig's own folder."""
    found = yaml.safe_load(kubeconfig.read_text())
    context = next(one["context"] for one in found["contexts"] if one["name"] == found["current-context"])
    cluster: dict[str, str] = next(one["cluster"] for one in found["clusters"] if one["name"] == context["cluster"])
    authority = cluster.get("certificate-authority")
    return cluster | ({"certificate-authority": str(kubeconfig.parent / authority)} if authority else {})
