"""The world as it is now, asked of everyone who knows: MLflow, the Deployment, each pod, the ledger, Redis."""

from __future__ import annotations

import json
import os
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from demo.errors import DemoError
from demo.settings import FEATURE_VIEW, MODEL, Settings


class World:
    """Reads the world through the package's own classes; nothing here writes."""

    def __init__(self, settings: Settings) -> None:
        from kubernetes import config
        from mlflow import MlflowClient

        from airflow_provider_ragops.contract import ServingTarget
        from airflow_provider_ragops.kube import Kube
        from airflow_provider_ragops.promotion.mlflow_ledger import MlflowLedger
        from airflow_provider_ragops.promotion.registry import MlflowRegistry

        self.settings = settings
        self.target = ServingTarget(settings.tier.namespace, MODEL)
        self.kube = Kube(config.new_client_from_config(str(settings.tier.cluster.kubeconfig)), 20.0)
        os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "20")
        client = MlflowClient(settings.mlflow_uri)
        self.registry = MlflowRegistry(client, settings.mlflow_uri)
        self.ledger = MlflowLedger(client, settings.mlflow_uri, lambda: datetime.now(timezone.utc))

    def alias(self) -> str | None:
        return self.registry.alias(MODEL, self.target.champion)

    def deployment(self) -> dict[str, Any]:
        path = f"/apis/apps/v1/namespaces/{self.target.namespace}/deployments/{self.target.deployment}"
        found = self.kube.get(path)
        if found is None:
            raise DemoError(f"Deployment {self.target.slug}: expected the chart's Deployment; it is gone.")
        return found

    def deployment_version(self) -> str | None:
        from airflow_provider_ragops.rollout.status import version_of

        return version_of(self.deployment()["spec"]["template"], self.target.container) or None

    def newest_partition(self) -> str:
        """The newest partition ever released here, from the release record; empty before the first release."""
        from airflow_provider_ragops.contract import ANNOTATION_RELEASE

        record = self.deployment()["metadata"].get("annotations", {}).get(ANNOTATION_RELEASE)
        return str(json.loads(record)["newest_partition"]) if record else ""

    def pod_versions(self) -> dict[str, str]:
        """What each pod says that it has loaded."""
        base = f"/api/v1/namespaces/{self.target.namespace}/pods"
        pods = [pod["metadata"] for pod in self.kube.list(base, f"app={self.target.deployment}")]
        names = [pod["name"] for pod in pods if "deletionTimestamp" not in pod]
        return {name: self._health(f"{base}/{name}:{self.target.port}/proxy/health") for name in names}

    def _health(self, path: str) -> str:
        status, body = self.kube.proxy(path)
        try:
            return str(json.loads(body)["model_version"])
        except (ValueError, KeyError):
            return f"answered {status}: {body[:100]}"

    def answer(self, version: str) -> dict[str, Any]:
        """One answer of the Service to the model's own input example."""
        example = self.registry.input_example(MODEL, version)
        base = f"/api/v1/namespaces/{self.target.namespace}/services/{self.target.service}:{self.target.port}/proxy"
        status, body = self.kube.proxy(f"{base}/invocations", "POST", example)
        if status != 200:
            raise DemoError(f"/invocations of {self.target.slug}: expected 200; saw {status}: {body[:300]}")
        return {"request": example, "reply": json.loads(body)}

    def versions(self, champion: str) -> dict[str, Any]:
        """The champion and the one before it, each with its metrics on the held-out customers."""
        moves = [one for one in self.ledger.history(self.target.slug) if one.outcome == "released"]
        before = next((one.from_version for one in moves if one.to_version == champion and one.from_version), None)
        return {**self._version(champion), "previous": self._version(before) if before else None}

    def _version(self, version: str) -> dict[str, Any]:
        from airflow_provider_ragops.contract import TAG_PARTITION

        partition = self.registry.version(MODEL, version).tags.get(TAG_PARTITION)
        return {"version": version, "partition": partition, "metrics": self.registry.metrics(MODEL, version)}

    def releases(self) -> list[dict[str, Any]]:
        return [
            {"from": one.from_version, "to": one.to_version, "outcome": one.outcome, "reason": one.outcome_reason,
             "opened_at": one.opened_at.isoformat()}
            for one in self.ledger.history(self.target.slug)
        ]

    def online_row(self, user: int) -> dict[str, Any]:
        """One customer's features, read back from Redis by Feast."""
        from airflow_provider_ragops.features.repository import open_store
        from airflow_provider_ragops.hooks.feast import feast_redis

        os.environ["RAGOPS_FEATURES_LOCATION"] = str(self.settings.features)
        feast = self.settings.feast_variables
        variables = {"FEAST_REGISTRY_URL": feast["registry_url"], "FEAST_REDIS": feast_redis(feast["redis_url"])}
        store = open_store(Path(feast["repo"]), variables)
        names = [f"{FEATURE_VIEW}:{field.name}" for field in store.get_feature_view(FEATURE_VIEW).features]
        found = store.get_online_features(names, [{"user_id": user}]).to_dict()
        return {name: values[0] for name, values in found.items()}
