"""A serving target for drills: tiny pods that start at once, hand-registered versions, and the lock from outside."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any, TypeVar
from urllib.parse import quote

import pytest
from demo.airflow_api import NoAnswer
from demo.errors import DemoError
from kubernetes import client, config

from airflow_provider_ragops.contract import (
    ANNOTATION_RELEASE,
    NO_VERSION,
    TAG_COMPLETED,
    TAG_GATE_CHAMPION,
    TAG_GATE_VERDICT,
    TAG_PARTITION,
)
from airflow_provider_ragops.kube import Kube
from airflow_provider_ragops.locking.configmap import ConfigMapStore
from airflow_provider_ragops.locking.holding import held
from airflow_provider_ragops.locking.lock import Lock
from airflow_provider_ragops.promotion.ledger import Ledger
from airflow_provider_ragops.promotion.registry import ModelRegistry
from tests.integration.tier import EXAMPLE, TinyTier, deployment
from tests.system.conftest import DRILL, Loop

Found = TypeVar("Found")


@dataclass
class Drill:
    """The target ``drill`` of the shipped DAGs, and what is registered for it."""

    loop: Loop
    tier: TinyTier
    mlflow: Any

    @property
    def registry(self) -> ModelRegistry:
        return self.loop.world.registry

    @property
    def ledger(self) -> Ledger:
        return self.loop.world.ledger

    @property
    def store(self) -> ConfigMapStore:
        return ConfigMapStore(self.tier.kube, DRILL.namespace, DRILL.lock_name)

    def register(self, *, verdict: str = "promote", partition: str = "", **tags: str) -> str:
        """A version that passed the gate against what serves now, of a newer day than all before it."""
        run = self.mlflow.create_run(self.mlflow.get_experiment_by_name("Default").experiment_id)
        self.mlflow.log_text(run.info.run_id, json.dumps(EXAMPLE), "model/serving_input_example.json")
        self.mlflow.set_terminated(run.info.run_id)
        made = self.mlflow.create_model_version(DRILL.model, f"{run.info.artifact_uri}/model", run.info.run_id)
        version = str(made.version)
        newer = (date(2026, 1, 1) + timedelta(days=int(version))).isoformat()
        self.registry.set_tags(DRILL.model, version, {
            TAG_GATE_VERDICT: verdict, TAG_GATE_CHAMPION: self.champion() or NO_VERSION,
            TAG_PARTITION: partition or newer, **tags, TAG_COMPLETED: "a drill",
        })
        return version

    def champion(self) -> str:
        return self.registry.alias(DRILL.model, DRILL.champion) or ""

    @property
    def record(self) -> dict[str, Any]:
        """The release record; empty before the first release."""
        annotations = self.tier.updater.read()["metadata"].get("annotations") or {}
        found: dict[str, Any] = json.loads(annotations.get(ANNOTATION_RELEASE, "{}"))
        return found

    def assert_serves(self, version: str) -> None:
        """Alias, record, template and what the pod itself says are one version; no entry is open, the lock is free."""
        assert self.champion() == version
        assert (self.record["to_version"], self.record["phase"] in ("done", "undone")) == (version, True)
        pods = self.tier.updater.pods(self.tier.updater.read())
        assert [pod.version for pod in pods] == [version]
        assert [self.tier.updater.ask(pod.name, version, EXAMPLE).fault for pod in pods] == [""]
        assert not self.ledger.open_entries(DRILL.slug)
        stored = self.store.read()
        assert stored is not None
        assert stored.record.free, stored.record.describe()

    @contextmanager
    def locked(self, purpose: str) -> Iterator[Lock]:
        """Hold the target's lock from here, so that others wait."""
        with held(Lock(self.store, "the drill", purpose)) as lock:
            yield lock

    def schedule(self, version: str) -> None:
        """What the task of the scheduled run is to release."""
        self.call("POST", "/variables", {"key": "drill_version", "value": version})

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """One call of Airflow's API; on a busy machine its SQLite database may be locked for a while."""
        for left in reversed(range(5)):
            try:
                return self.loop.api.call(method, path, body)
            except NoAnswer:
                if not left:
                    raise
                time.sleep(2)
        raise AssertionError("unreachable: the last try returns or raises")

    def trigger(self, dag: str, conf: dict[str, Any]) -> str:
        """Start a run; its id. A call that is repeated starts no second one."""
        run_id = f"manual__{uuid.uuid4().hex[:8]}"
        try:
            self.call("POST", f"/dags/{dag}/dagRuns", {"dag_run_id": run_id, "logical_date": None, "conf": conf})
        except DemoError as error:
            if " 409" not in str(error):
                raise
        return run_id

    def release(self, version: str) -> str:
        """Start a run of ``drill_other``; its id."""
        return self.trigger("drill_other", {"version": version})

    def state(self, dag: str, run_id: str, task: str = "release") -> str:
        return str(self.task(dag, run_id, task)["state"])

    def task(self, dag: str, run_id: str, task: str = "release") -> dict[str, Any]:
        found: dict[str, Any] = self.call("GET", f"/dags/{dag}/dagRuns/{quote(run_id)}/taskInstances/{task}")
        return found

    def log(self, dag: str, run_id: str, task: str = "release", attempt: int = 1) -> str:
        """A task's log as one text, also while it runs."""
        path = f"/dags/{dag}/dagRuns/{quote(run_id)}/taskInstances/{task}/logs/{attempt}?full_content=true"
        return "\n".join(json.dumps(line) for line in self.call("GET", path)["content"])

    def ended(self, dag: str, run_id: str, deadline: float = 120) -> str:
        """Wait for the run's end; its state."""
        return self.loop.api.wait(dag, run_id, deadline=deadline, progress=lambda _: None).state

    def wait_for_phase(self, phase: str, version: str) -> dict[str, Any]:
        """The record, as soon as it is in this phase on the way to the version."""
        return eventually(
            lambda: (found := self.record).get("phase") == phase and found["to_version"] == version and found,
            f"phase {phase!r} to version {version}", 120, pause=0.1,
        )


def eventually(condition: Callable[[], Found | bool], what: str, seconds: float, pause: float = 0.5) -> Found:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = condition()
        if found:
            return found  # type: ignore[return-value]
        time.sleep(pause)
    pytest.fail(f"{what}: not within {seconds:g} s")


@contextmanager
def made(loop: Loop, image: str) -> Iterator[Drill]:
    """A namespace with one Deployment, where Airflow's account may do anything; version 1 was released to it."""
    from mlflow import MlflowClient

    api = config.new_client_from_config(str(loop.settings.tier.cluster.kubeconfig))
    removed(api)
    core = client.CoreV1Api(api)
    core.create_namespace({"metadata": {"name": DRILL.namespace}}, _request_timeout=10)
    account = {"kind": "ServiceAccount", "name": "ragops-releaser", "namespace": loop.settings.tier.namespace}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    client.RbacAuthorizationV1Api(api).create_namespaced_role_binding(
        DRILL.namespace, {"metadata": {"name": "drill"}, "subjects": [account], "roleRef": role}, _request_timeout=10,
    )
    tier = TinyTier(api, DRILL.namespace, image)
    tier.target = DRILL
    tier.kube.create(tier.path.rpartition("/")[0], deployment(DRILL.namespace, image))
    tier.expose()
    mlflow = MlflowClient(loop.settings.mlflow_uri)
    mlflow.create_registered_model(DRILL.model)
    drill = Drill(loop, tier, mlflow)
    for dag in ("drill_other", "drill_impatient", "model_release"):
        loop.api.unpause(dag)
    assert drill.ended("drill_other", drill.release(drill.register())) == "success"
    yield drill
    core.delete_namespace(DRILL.namespace, _request_timeout=10)


def removed(api: client.ApiClient) -> None:
    """Delete the namespace, where a session that was killed left it, and wait until it is gone."""
    kube = Kube(api)
    path = f"/api/v1/namespaces/{DRILL.namespace}"
    if found := kube.get(path):
        kube.delete(path, found["metadata"]["uid"])
        eventually(lambda: kube.get(path) is None, f"namespace {DRILL.namespace} to be gone", 120)
