"""A second API server of the local node, on the same etcd: a test may kill it and start it again, and disturb nobody.

It is started as the node's own one was, on another port; controllers, kubelet and other tests talk to the node's own.
"""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path
from typing import Any

from demo.services import free_port
from kubernetes import client, config
from urllib3.exceptions import HTTPError

RUN = Path(os.environ.get("RAGOPS_CLUSTER_RUN", "/run/ragops-cluster"))


class SpareApiServer:
    """:param kubeconfig: the node's own; ``client()`` carries its credentials to the spare server's address."""

    def __init__(self, kubeconfig: Path, node_ip: str, log: Path) -> None:
        self._kubeconfig, self._log = kubeconfig, log
        self.port = free_port(node_ip)
        self.url = f"https://{node_ip}:{self.port}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, deadline: float = 90) -> None:
        with self._log.open("ab") as out:
            self._process = subprocess.Popen(self._command(), stdout=out, stderr=out, start_new_session=True)
        ends = time.monotonic() + deadline
        while not self._ready():
            ended = self._process.poll()
            assert ended is None, f"{self.url} ended with {ended}; see {self._log}"
            assert time.monotonic() < ends, f"{self.url} is not ready within {deadline} s; see {self._log}"
            time.sleep(0.1)

    def kill(self) -> None:
        """End it at once, as a lost machine would."""
        if self._process:
            self._process.kill()
            self._process.wait(timeout=10)

    def client(self) -> Any:
        api = config.new_client_from_config(str(self._kubeconfig))
        api.configuration.host = self.url
        api.configuration.retries = False
        api.configuration.refresh_api_key_hook = None  # it would set the kubeconfig's address again
        return api

    def _ready(self) -> bool:
        try:
            client.CoreV1Api(self.client()).read_namespace("default", _request_timeout=2)
        except (HTTPError, OSError, client.ApiException):
            return False
        return True

    def _command(self) -> list[str]:
        pid = (RUN / "pids" / "kube-apiserver").read_text().split()[0]
        own = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")[:-1]
        port = own.index("--secure-port") + 1
        # It must not name itself among the endpoints of the cluster's own Service.
        return [*own[:port], str(self.port), *own[port + 1 :], "--endpoint-reconciler-type", "none"]
