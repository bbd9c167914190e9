"""Two serving pods on one hostPath of a real cluster: one leaves."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import helm_python as helm
import pytest
from demo.paths import ROOT
from kubernetes import client, config
from kubernetes.stream import stream

from airflow_provider_ragops.exceptions import RagopsError
from airflow_provider_ragops.kube import Kube

pytestmark = [pytest.mark.cluster, pytest.mark.images, pytest.mark.timeout(300)]

NAME = "mlflow-serve"
# Sees the whole shared folder, as nobody in the tier does; made as the chart asks: for everybody, with the sticky bit.
LOOKER = ["sh", "-c", "chmod 1777 /shared && sleep 600"]


@dataclass(frozen=True)
class Shared:
    """Two pods without a version, whose model caches are directories of one folder of the node."""

    api: client.ApiClient
    namespace: str

    @property
    def core(self) -> client.CoreV1Api:
        return client.CoreV1Api(self.api)

    def pods(self) -> list[str]:
        """That run, by name."""
        found = self.core.list_namespaced_pod(self.namespace, label_selector=f"app={NAME}", _request_timeout=10).items
        return sorted(pod.metadata.name for pod in found if pod.status.phase == "Running")

    def run(self, pod: str, script: str) -> str:
        socket = stream(
            self.core.connect_get_namespaced_pod_exec, pod, self.namespace, command=["sh", "-c", script],
            stdout=True, stderr=True, stdin=False, tty=False, _preload_content=False, _request_timeout=60,
        )
        socket.run_forever(timeout=60)
        output = str(socket.read_all())
        socket.sock.shutdown()  # close() does nothing once the far end has closed, and leaves the connection open
        return output

    def files(self) -> set[str]:
        return set(self.run("looker", "cd /shared && find . -type f").split())


def looker(folder: str, image: str) -> dict[str, Any]:
    volume = {"name": "shared", "hostPath": {"path": folder, "type": "DirectoryOrCreate"}}
    container = {
        "name": "looker", "image": image, "imagePullPolicy": "IfNotPresent", "command": LOOKER,
        "securityContext": {"runAsUser": 0}, "volumeMounts": [{"name": "shared", "mountPath": "/shared"}],
    }
    spec = {
        "containers": [container], "volumes": [volume], "terminationGracePeriodSeconds": 0,
        "automountServiceAccountToken": False,  # a namespace this young has none yet
    }
    return {"metadata": {"name": "looker"}, "spec": spec}


def wait_until(condition: Callable[[], bool], deadline: float) -> None:
    ends = time.monotonic() + deadline
    while not condition():
        assert time.monotonic() < ends, f"not within {deadline} s"
        time.sleep(0.3)


@pytest.fixture
def shared(cluster, images) -> Iterator[Shared]:
    api = config.new_client_from_config(str(cluster.kubeconfig))
    namespace = f"leaving-{uuid.uuid4().hex[:8]}"
    found = Shared(api, namespace)
    folder = f"/tmp/{namespace}"
    repository, _, tag = images.serving.rpartition(":")
    values = {
        "image": {"repository": repository, "tag": tag}, "training": {"create": False},
        "modelCache": {"hostPath": folder}, "rollout": {"preStopSeconds": 3},
    }
    found.core.create_namespace({"metadata": {"name": namespace}}, _request_timeout=10)
    found.core.create_namespaced_pod(namespace, looker(folder, images.serving), _request_timeout=10)
    with helm.Config(kubeconfig_path=cluster.kubeconfig, namespace=namespace) as connection:
        wait_until(lambda: found.core.read_namespaced_pod("looker", namespace).status.phase == "Running", 120)
        connection.install(ROOT / "docker" / "chart", NAME, values, timeout=60)
        yield found
        connection.uninstall(NAME, timeout=60)
    found.run("looker", "rm -rf /shared/*")
    found.core.delete_namespace(namespace, _request_timeout=10)


def test_a_pod_that_leaves_clears_its_own_directory(shared: Shared) -> None:
    """R5: its files go before the pod does, its log says so, and the pod beside it keeps its own."""
    kube = Kube(shared.api)
    wait_until(lambda: len(shared.pods()) == 2, 120)
    first, second = shared.pods()

    def address(pod: str, what: str) -> str:
        return f"/api/v1/namespaces/{shared.namespace}/pods/{pod}{what}"

    def alive(pod: str) -> bool:
        return kube.proxy(address(pod, ":5000/proxy/health/live"))[0] == 200

    for pod in (first, second):
        wait_until(lambda pod=pod: alive(pod), 120)
        shared.run(pod, "mkdir -p /tmp/model_cache/m/1 && echo x > /tmp/model_cache/m/1/model.pt")
    assert shared.files() == {f"./{pod}/m/1/model.pt" for pod in (first, second)}
    shared.core.delete_namespaced_pod(first, shared.namespace, _request_timeout=10)
    log, health = "", set()

    def gone() -> bool:
        nonlocal log
        try:
            log = kube.text(address(first, "/log"), {"container": NAME}) or log
            health.add(kube.proxy(address(first, ":5000/proxy/health"))[1])
        except RagopsError:
            pass  # between two looks it went
        return first not in shared.pods()

    wait_until(gone, 90)
    assert shared.files() & {f"./{first}/m/1/model.pt", f"./{second}/m/1/model.pt"} == {f"./{second}/m/1/model.pt"}
    assert "leaving: /health answers 503" in log
    assert "cleared, 3 files and folders removed" in log
    assert any('"stopping"' in body for body in health), health
