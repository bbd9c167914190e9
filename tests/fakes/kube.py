"""A Kubernetes API with real write semantics: resourceVersion, 409, lost replies; and a scripted Deployment."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Generator
from typing import Any

from airflow_provider_ragops.contract import LABEL_BLESSING
from airflow_provider_ragops.exceptions import ClusterError, ConflictError, UnreachableError
from tests.fakes.time import FakeTime

Json = dict[str, Any]


def conflict(path: str) -> ConflictError:
    return ConflictError(path, expected="the object as we read it", seen="409", action="Read it again.")


def unreachable(path: str) -> UnreachableError:
    return UnreachableError(path, expected="an answer", seen="none", action="Wait.")


class FakeKube:
    """Objects by path. ``before`` and ``after`` are called with (verb, path) around each call and may raise.

    A watch needs ``time`` to pass; without it, it is refused as a Role without the verb does.
    """

    timeout = 1.0
    time: FakeTime | None = None

    def __init__(self) -> None:
        self.objects: dict[str, Json] = {}
        self.writes: list[tuple[str, str]] = []
        self.before: Callable[[str, str], None] = lambda verb, path: None
        self.after: Callable[[str, str], None] = lambda verb, path: None
        self._revision = 0

    def get(self, path: str) -> Json | None:
        self.before("GET", path)
        found = self.objects.get(path)
        return copy.deepcopy(found)

    def create(self, path: str, body: Json) -> Json:
        self.before("POST", path)
        full = f"{path}/{body['metadata']['name']}"
        if full in self.objects:
            raise conflict(full)
        return self._store("POST", full, copy.deepcopy(body) | {})

    def replace(self, path: str, body: Json) -> Json:
        self.before("PUT", path)
        stored = self.objects.get(path)
        if stored is None or stored["metadata"]["resourceVersion"] != body["metadata"]["resourceVersion"]:
            raise conflict(path)
        return self._store("PUT", path, copy.deepcopy(body))

    def watch(
        self, path: str, name: str, resource_version: str, seconds: float,
    ) -> Generator[Json, None, None]:
        """The next event of one object; time passes a second at a time."""
        full = f"{path}/{name}"
        if self.time is None:
            raise ClusterError(full, expected="success", seen="403 no watch", action="Grant it.")
        self.before("WATCH", full)
        deadline = self.time.clock() + seconds
        while self.time.clock() < deadline:
            found = self.objects.get(full)
            if found is None or found["metadata"]["resourceVersion"] != resource_version:
                yield {"type": "MODIFIED" if found else "DELETED", "object": copy.deepcopy(found)}
                return
            self.time.sleep(1.0)

    def delete(self, path: str, uid: str) -> None:
        self.before("DELETE", path)
        if path in self.objects and self.objects[path]["metadata"].get("uid") == uid:
            del self.objects[path]
            self.writes.append(("DELETE", path))
        self.after("DELETE", path)

    def put(self, path: str, body: Json) -> None:
        """Place an object as a stranger would."""
        self._store("PUT", path, copy.deepcopy(body), quiet=True)

    def _store(self, verb: str, path: str, body: Json, quiet: bool = False) -> Json:
        self._revision += 1
        body.setdefault("metadata", {})["resourceVersion"] = str(self._revision)
        self.objects[path] = body
        if not quiet:
            self.writes.append((verb, path))
            self.after(verb, path)
        return copy.deepcopy(body)


class FakeTier(FakeKube):
    """A serving tier: one Deployment whose pods follow its template, one pod for each look of the rollout.

    ``broken`` names versions whose pods do badly, with the fault: ``crash`` (never ready), ``other`` (answers as
    another version), ``nan``, ``hang`` (no answer in time), ``slow`` (an answer takes a second of ``time``),
    ``collide`` (the log says so). ``refuse`` is what the API server itself answers instead of proxying.

    Pods that someone creates beside the tier run at once; ``broken_beside`` names the versions that do badly there,
    with the same faults, and ``no room`` besides. ``nodes`` and ``quotas`` are what the account may read of the
    cluster; None: it may not.
    """

    def __init__(self, namespace: str = "ml-serving", name: str = "mlflow-serve", replicas: int = 2) -> None:
        super().__init__()
        self.time = FakeTime()
        self.refuse: tuple[int, str] | None = None
        self.most_pods: dict[str, int] = {}
        self.path = f"/apis/apps/v1/namespaces/{namespace}/deployments/{name}"
        self.broken: dict[str, str] = {}
        self.pods: list[Json] = []
        #: Pods in which a candidate shows beside the tier that it loads and answers.
        self.beside: list[Json] = []
        self.asked: list[str] = []
        self.broken_beside: dict[str, str] = {}
        self.nodes: list[Json] | None = None
        self.quotas: list[Json] | None = []
        self._serial = 0
        self.put(self.path, {
            "metadata": {
                "name": name, "namespace": namespace, "uid": "uid-1", "generation": 1,
                "annotations": {"owner": "someone"},
            },
            "spec": {
                "replicas": replicas, "selector": {"matchLabels": {"app": name}},
                "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": [
                    {"name": "sidecar", "env": []}, {"name": name, "env": [{"name": "MODEL_NAME", "value": "M"}]},
                ]}},
            },
            "status": {"observedGeneration": 1},
        })
        self.pods = [self._pod("") for _ in range(replicas)]

    @property
    def deployment(self) -> Json:
        return self.objects[self.path]

    def version(self) -> str:
        return _version(self.deployment["spec"]["template"])

    def edit(self, version: str) -> None:
        """Set MODEL_VERSION by hand."""
        body = copy.deepcopy(self.deployment)
        container = body["spec"]["template"]["spec"]["containers"][1]
        container["env"] = [e for e in container["env"] if e["name"] != "MODEL_VERSION"]
        container["env"].append({"name": "MODEL_VERSION", "value": version})
        body["metadata"]["generation"] += 1
        self.put(self.path, body)

    def replace(self, path: str, body: Json) -> Json:
        old = self.objects.get(path)
        if path == self.path and old and old["spec"] != body["spec"]:
            body = copy.deepcopy(body)
            body["metadata"]["generation"] = old["metadata"]["generation"] + 1
        return super().replace(path, body)

    def create(self, path: str, body: Json) -> Json:
        if body.get("kind") == "Pod":
            body = copy.deepcopy(body)
            body["metadata"]["uid"] = f"uid-{body['metadata']['name']}"
            body["status"] = self._status_beside(self.broken_beside.get(_version(body), ""))
        return super().create(path, body)

    def list(self, path: str, selector: str, fields: str = "") -> list[Json]:
        if path.endswith("/deployments"):
            return [copy.deepcopy(self.deployment)]
        if path.endswith(("/nodes", "/resourcequotas")):
            readable = self.nodes if path.endswith("/nodes") else self.quotas
            if readable is None:
                raise ClusterError(path, expected="success", seen="403 forbidden", action="Grant it.")
            return copy.deepcopy(readable)
        assert path.endswith("/pods")
        if LABEL_BLESSING in selector:
            return copy.deepcopy(self._beside())
        if path == "/api/v1/pods":
            return copy.deepcopy(self.pods + self._beside())
        self._step()
        return copy.deepcopy(self.pods)

    def text(self, path: str, query: Any = None) -> str:
        name = path.split("/pods/")[1].split("/")[0]
        pod = next((p for p in self.pods + self._beside() if p["metadata"]["name"] == name), None)
        if pod is None:
            raise ClusterError(path, expected="success", seen="404 not found", action="Check the name.")
        collided = self.broken.get(_version(pod)) == "collide"
        return "CacheKeyCollisionError: duplicate key\n" if collided else "all quiet\n"

    def proxy(
        self, path: str, method: str = "GET", body: Any = None, query: Any = None, timeout: float | None = None,
    ) -> tuple[int, str]:
        if self.refuse:
            status, message = self.refuse
            return status, json.dumps({"kind": "Status", "message": message})
        name = path.split("/pods/")[1].split(":")[0] if "/pods/" in path else ""
        pod = next((p for p in self.pods + self._beside() if p["metadata"]["name"] == name), None) or self._ready()[0]
        version = _version(pod)
        fault = (self.broken if pod in self.pods else self.broken_beside).get(version, "")
        served = "999" if fault == "other" else version
        self.asked.append(pod["metadata"]["name"])
        if fault == "hang":
            raise unreachable(path)
        if fault == "slow":
            self.time.seconds += 1.0
        if path.endswith("/health"):
            return 200, json.dumps({"status": "ready", "model_version": served})
        prediction = None if fault == "nan" else 0.5
        return 200, json.dumps({"predictions": [prediction], "metadata": {"model_version": served}})

    def _step(self) -> None:
        """One pod of the template's version comes, one other goes; the status follows."""
        wanted, desired = self.version(), self.deployment["spec"]["replicas"]
        stuck = self.broken.get(wanted) == "crash"
        new = [p for p in self.pods if _version(p) == wanted]
        old = [p for p in self.pods if _version(p) != wanted]
        if len(new) < desired and not (stuck and new):
            new.append(self._pod(wanted, crashed=stuck))
        if old and (not stuck or not wanted):
            old.pop()
        self.pods = old + new
        self.most_pods[wanted] = max(self.most_pods.get(wanted, 0), len(new))
        ready = [p for p in new if _is_ready(p)]
        status = {
            "observedGeneration": self.deployment["metadata"]["generation"], "replicas": len(self.pods),
            "updatedReplicas": len(new), "availableReplicas": len(ready),
        }
        body = copy.deepcopy(self.deployment)
        if body["status"] != status:
            body["status"] = status
            self.put(self.path, body)

    def _beside(self) -> list[Json]:
        return [found for path, found in self.objects.items() if "/pods/" in path]

    def _status_beside(self, fault: str) -> Json:
        if fault == "no room":
            message = "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."
            return {"phase": "Pending", "conditions": [
                {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message},
            ]}
        if fault == "crash":
            exited = {"terminated": {"exitCode": 1, "reason": "Error"}}
            return {"phase": "Failed", "containerStatuses": [{"name": "mlflow-serve", "state": exited}]}
        return {"phase": "Running", "conditions": [{"type": "ContainersReady", "status": "True"}]}

    def _ready(self) -> list[Json]:
        return [p for p in self.pods if _is_ready(p)]

    def _pod(self, version: str, crashed: bool = False) -> Json:
        self._serial += 1
        env = [{"name": "MODEL_VERSION", "value": version}] if version else []
        status: Json = {"conditions": [{"type": "Ready", "status": "True" if version and not crashed else "False"}]}
        if crashed:
            waiting = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}}
            status["containerStatuses"] = [{"restartCount": 3, "state": waiting}]
        return {
            "metadata": {"name": f"pod-{self._serial}"}, "status": status,
            "spec": {"containers": [{"name": "mlflow-serve", "env": env}]},
        }


def _is_ready(pod: Json) -> bool:
    return bool(pod["status"]["conditions"][0]["status"] == "True")


def _version(template: Json) -> str:
    env = template["spec"]["containers"][-1]["env"]
    return next((e["value"] for e in env if e["name"] == "MODEL_VERSION"), "")
