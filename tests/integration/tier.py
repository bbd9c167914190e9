"""A tier of tiny pods on a real cluster: they say, in a tenth of a second, what the serving image says in ten.

Where asked for, some versions do badly, by number: 7 never turns Ready, 8 crashes, 9 serves version 1; and pods of one
version are held back: not Ready until they are let on.
"""

from __future__ import annotations

import textwrap
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from kubernetes import client

from airflow_provider_ragops.contract import ServingTarget
from airflow_provider_ragops.exceptions import ConflictError
from airflow_provider_ragops.kube import Kube
from airflow_provider_ragops.rollout.plan import MAKE_ROOM, USUAL, Change, Strategy, apply
from airflow_provider_ragops.rollout.reading import version_of
from airflow_provider_ragops.rollout.status import Progress
from airflow_provider_ragops.rollout.updater import Updater

Json = dict[str, Any]
NAME = "mlflow-serve"
EXAMPLE = {"dataframe_records": [{"x": 1.0}]}

SERVER = textwrap.dedent("""
    import json, os, signal, sys
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
    version = os.environ.get("MODEL_VERSION", "")
    bad = version if os.environ.get("SOME_ARE_BAD") else ""
    if bad == "8":
        print("the model can't be read", flush=True)
        sys.exit(3)
    served = "1" if bad == "9" else version
    held_back = version == os.environ.get("HELD_BACK")
    ready = bool(version) and bad != "7" and not held_back

    class Handler(BaseHTTPRequestHandler):
        def answer(self):
            global ready
            ready = ready or (held_back and self.path == "/on")
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            health = {"status": "ready" if ready else "loading", "model_version": served if ready else ""}
            predictions = {"predictions": [0.5], "metadata": {"model_version": served}}
            body = json.dumps(predictions if "invocations" in self.path else health).encode()
            self.send_response(200 if ready else 503)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
        do_GET = do_POST = answer
        def log_message(self, *args):
            pass

    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    ThreadingHTTPServer(("", 5000), Handler).serve_forever()
""")


def deployment(
    namespace: str, image: str, replicas: int = 1, *, requests: Json | None = None, grace: int = 0,
    some_are_bad: bool = False, **spec: Any,
) -> Json:
    """:param grace: seconds; with 0 a pod is gone at once, otherwise an old kubelet reports it up to 10 s later."""
    probe = {"httpGet": {"path": "/health", "port": 5000}, "periodSeconds": 1}
    container = {
        "name": NAME, "image": image, "command": ["python", "-S", "-c", SERVER], "readinessProbe": probe,
        "imagePullPolicy": "IfNotPresent", "ports": [{"name": "http", "containerPort": 5000}],
        "resources": {"limits": requests or {}},
        "env": [{"name": "SOME_ARE_BAD", "value": "yes"}] if some_are_bad else [],
    }
    template = {
        "metadata": {"labels": {"app": NAME, "team": "tests"}},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": grace},
    }
    return {
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": NAME, "namespace": namespace},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": NAME}}, "template": template, **spec},
    }


@dataclass
class TinyTier:
    """A namespace with one Deployment and its Service."""

    api: client.ApiClient
    namespace: str
    image: str
    kube: Kube = field(init=False)
    updater: Updater = field(init=False)

    def __post_init__(self) -> None:
        self.kube = Kube(self.api)
        self.target = ServingTarget(self.namespace, "M")
        self.updater = self.updater_by(self.kube)
        self.path = f"/apis/apps/v1/namespaces/{self.namespace}/deployments/{NAME}"
        self.core = client.CoreV1Api(self.api)
        self.apps = client.AppsV1Api(self.api)

    def updater_by(self, kube: Kube) -> Updater:
        return Updater(kube, self.target, poll=0.3)

    def arrange(self, version: str = "1", **given: Any) -> None:
        """One replica that serves version 1, or what is given; from whatever the test before left."""
        wanted = deployment(self.namespace, self.image, some_are_bad=True, **given)
        # Where a bad version has the only slot, the good one must not wait for another.
        change = Change("{}", version, min_ready_seconds=1, strategy=MAKE_ROOM)
        if self.kube.get(self.path) is None:
            self.kube.create(self.path.rpartition("/")[0], wanted)
        stored = self.write(lambda found: apply(wanted | {"metadata": found["metadata"]}, change, self.target))
        progress = self.updater.wait(stored, version, EXAMPLE, 120, lambda: None, patient=True)
        assert progress.state == "done", progress.reason

    def expose(self) -> None:
        ports = [{"name": "http", "port": 5000, "targetPort": "http"}]
        body = {"metadata": {"name": NAME}, "spec": {"selector": {"app": NAME}, "ports": ports}}
        self.core.create_namespaced_service(self.namespace, body, _request_timeout=10)

    def roll(
        self, version: str, *, timeout: float = 120, strategy: Strategy = USUAL, updater: Updater | None = None,
        patient: bool = False, guard: Callable[[], None] = lambda: None, ready: int = 1,
    ) -> Progress:
        """Write the version and follow it to its end.

        :param ready: seconds from a pod's Ready until the next step; where a pod must be found bad before that, more
            than a busy machine takes to ask it.
        """
        change = Change("{}", version, min_ready_seconds=ready, strategy=strategy)
        written = self.write(lambda found: apply(found, change, self.target))
        return (updater or self.updater).wait(written, version, EXAMPLE, timeout, guard, patient=patient)

    def hold_back(self, version: str) -> None:
        """Pods of this version will not turn Ready before :meth:`let_on`; what serves now is rolled once for it."""

        def held(found: Json) -> Json:
            env = found["spec"]["template"]["spec"]["containers"][0]["env"]
            env[:] = [one for one in env if one["name"] != "HELD_BACK"] + [{"name": "HELD_BACK", "value": version}]
            return found

        stored = self.write(held)
        serving = version_of(stored["spec"]["template"], self.target.container)
        progress = self.updater.wait(stored, serving, EXAMPLE, 120, lambda: None, patient=True)
        assert progress.state == "done", progress.reason

    def let_on(self, version: str) -> None:
        pods = [pod.name for pod in self.updater.pods(self.updater.read()) if pod.version == version]
        assert pods, f"no pod of version {version}"
        for pod in pods:
            path = f"/api/v1/namespaces/{self.namespace}/pods/{pod}:5000/proxy/on"
            # A container that has just been created may not listen yet.
            self.eventually(lambda path=path: self.kube.proxy(path, "POST", {})[0] == 200)  # type: ignore[misc]

    def write(self, change: Callable[[Json], Json]) -> Json:
        """Replace the Deployment by compare-and-swap, whatever the controller writes meanwhile."""
        for _ in range(20):
            try:
                return self.kube.replace(self.path, change(self.updater.read()))
            except ConflictError:
                time.sleep(0.1)
        pytest.fail("the Deployment changed 20 times in a row")

    def pods(self) -> list[Json]:
        """All pods of the namespace."""
        return self.kube.list(f"/api/v1/namespaces/{self.namespace}/pods", "")

    def names(self, version: str) -> list[str]:
        """Pods that serve the version and are not leaving."""
        pods = self.updater.pods(self.updater.read())
        return [pod.name for pod in pods if pod.version == version and pod.ready and not pod.terminating]

    def revision(self) -> int:
        """How often the template was changed."""
        return int(self.updater.read()["metadata"]["annotations"]["deployment.kubernetes.io/revision"])

    def revisions(self) -> list[str]:
        """Names of the ReplicaSets."""
        path = f"/apis/apps/v1/namespaces/{self.namespace}/replicasets"
        return sorted(one["metadata"]["name"] for one in self.kube.list(path, ""))

    def eventually(self, condition: Callable[[], bool], deadline: float = 90) -> None:
        ends = time.monotonic() + deadline
        while not condition():
            assert time.monotonic() < ends, f"not within {deadline} s"
            time.sleep(0.2)
