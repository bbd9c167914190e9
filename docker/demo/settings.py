"""Where things listen and what the tasks are told; every choice can be overridden from the environment."""

from __future__ import annotations

import os
import shlex
import subprocess
from dataclasses import dataclass
from pathlib import Path

from demo import services
from demo.background import Service
from demo.chart import ServingTier
from demo.cluster import Cluster
from demo.images import Images
from demo.paths import ROOT, STATE

MODEL = "CustomerChurnPredictor"
FEATURE_VIEW = "user_financial_features"


@dataclass(frozen=True)
class Settings:
    """Addresses of one demo. ``RAGOPS_{MLFLOW,REDIS,AIRFLOW}_PORT`` and ``REDIS_URL`` override the defaults."""

    host: str
    mlflow_port: int
    redis_port: int
    airflow_port: int
    given_redis: str | None
    tier: ServingTier
    state: Path = STATE
    # Off in the demo: a just-unpaused DAG starts its last due run at once, which would block the one slot.
    schedule: str = "off"

    @classmethod
    def of(cls, cluster: Cluster) -> Settings:
        mlflow, redis, airflow = (services.wanted_port(name, port) for name, port in PORTS.items())
        return cls(cluster.node_ip, mlflow, redis, airflow, os.environ.get("REDIS_URL"), ServingTier.of(cluster))

    @property
    def mlflow_uri(self) -> str:
        return f"http://{self.host}:{self.mlflow_port}"

    @property
    def redis_url(self) -> str:
        return self.given_redis or f"redis://{self.host}:{self.redis_port}/0"

    @property
    def exposure(self) -> str:
        """Who reaches what without a login; empty on the local node, whose address exists on this machine alone."""
        if self.tier.cluster.kind == "local":
            return ""
        names = "MLflow listens" if self.given_redis else "MLflow and Valkey listen"
        return f"{names} on {self.host} without a login: whoever reaches that address can read and change them"

    @property
    def data(self) -> Path:
        return self.state / "transactions"

    @property
    def features(self) -> Path:
        return self.state / "features"

    @property
    def airflow_home(self) -> Path:
        return self.state / "airflow"

    @property
    def airflow_kubeconfig(self) -> Path:
        """Airflow's own, with the chart's Roles; the demo itself is the cluster's admin."""
        return self.state / "airflow.kubeconfig"

    @property
    def feast_variables(self) -> dict[str, str]:
        return {"repo": str(ROOT / "dags" / "churn" / "features"), "redis_url": self.redis_url,
                "registry_url": f"sqlite:///{self.state}/feast-registry.db"}

    def mlflow(self) -> Service:
        return services.mlflow(self.state / "mlflow", self.host, self.mlflow_port)

    def redis(self) -> Service | None:
        """None where REDIS_URL names another."""
        return None if self.given_redis else services.redis(self.state / "redis", self.host, self.redis_port)

    def airflow(self, images: Images) -> Service:
        return services.airflow(self.airflow_home, self.airflow_port, self.task_environment(images))

    def write_shell_environment(self, images: Images) -> Path:
        """What the commands ``airflow`` and ``kubectl`` need to reach this demo, as a file for a shell to read."""
        env = {**self.airflow(images).env, "KUBECONFIG": str(self.tier.cluster.kubeconfig)}
        path = self.state / "env"
        path.touch(mode=0o600)
        path.write_text("".join(f"export {name}={shlex.quote(value)}\n" for name, value in sorted(env.items())))
        return path

    def task_environment(self, images: Images) -> dict[str, str]:
        return {
            **services.connections(self.mlflow_uri, self.airflow_kubeconfig, self.feast_variables),
            "RAGOPS_DATA_LOCATION": str(self.data),
            "RAGOPS_FEATURES_LOCATION": str(self.features),
            "RAGOPS_FEAST_REPO": self.feast_variables["repo"],
            "RAGOPS_TRAINING_IMAGE": images.training,
            "RAGOPS_TRAINING_NAMESPACE": self.tier.training,
            "RAGOPS_SERVICE_ACCOUNT": "ragops-trainer",
            "RAGOPS_SERVING_NAMESPACE": self.tier.namespace,
            "RAGOPS_REDIS_CONN": "redis_default",
            "RAGOPS_GPUS": os.environ.get("RAGOPS_GPUS", "0"),
            "RAGOPS_SCHEDULE": self.schedule,
            "RAGOPS_GIT_COMMIT": git_commit(),
            "REDIS_URL": self.redis_url,
        }


PORTS = {"MLFLOW": 5000, "REDIS": 6379, "AIRFLOW": 8080}


def git_commit() -> str:
    """The commit of the checkout, or ``unknown`` outside one."""
    command = ["git", "-C", str(ROOT), "rev-parse", "HEAD"]
    try:
        found = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except FileNotFoundError:
        return "unknown"
    return found.stdout.strip() if found.returncode == 0 else "unknown"
