"""Choose a Kubernetes cluster and bring it up: ``KUBECONFIG``, else kind, else the local node of docker/cluster.

Run ``python -m demo.cluster up | down | show``.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.parse
from dataclasses import dataclass
from pathlib import Path

from demo.command import run
from demo.errors import DemoError
from demo.paths import BUILD, CLUSTER_LOGS, ROOT

SCRIPTS = ROOT / "docker" / "cluster"
OURS = BUILD / "cluster-is-ours"  # the kind of the cluster that we brought up, and so may bring down
KIND_CLUSTER = "ragops"
KIND_KUBECONFIG = BUILD / "kind.kubeconfig"
COMPILE_DEADLINE = 30 * 60.0  # a first bring-up of the local node compiles Kubernetes: 6 minutes on two cores


@dataclass(frozen=True)
class Cluster:
    kind: str  # given | kind | local
    kubeconfig: Path
    node_ip: str  # an address of this machine that pods reach; services for them listen there


def up() -> Cluster:
    """Bring the cluster up unless it is, and find this machine's address on it.

    :raises DemoError: when it can't be brought up or does not answer.
    """
    kind = choose()
    if kind == "kind":
        _kind_up()
    elif kind == "local":
        _local_up()
    kubeconfig = kubeconfig_of(kind)
    if kind != "given":  # the way to another's API server may well lead through the proxy
        bypass_proxies(_api_host(kubeconfig))
    node = _node_address(kubeconfig)
    found = Cluster(kind, kubeconfig, address_towards(node))
    bypass_proxies(node, found.node_ip)
    return found


def down(*, only_ours: bool = False) -> bool:
    """Take the cluster down that was brought up here, whatever KUBECONFIG names now; True when something was done.

    A cluster named by KUBECONFIG is never touched.
    """
    kind = ours() or ("given" if only_ours else choose())
    if kind == "given":
        return False
    command = ["kind", "delete", "cluster", "--name", KIND_CLUSTER] if kind == "kind" else [SCRIPTS / "down.sh"]
    run("cluster down", command, CLUSTER_LOGS / "cluster-down.log", deadline=300)
    OURS.unlink(missing_ok=True)
    return True


def ours() -> str | None:
    """The kind of the cluster that was brought up here; None when there is none."""
    try:
        return OURS.read_text() or "local"
    except FileNotFoundError:
        return None


def bypass_proxies(*hosts: str) -> None:
    """Tell this process and its children that these hosts and this machine are not behind the machine's proxy."""
    both = [os.environ.get(name, "") for name in ("NO_PROXY", "no_proxy")]
    # Some clients read the one, some the other; a lone asterisk already exempts every host.
    known = [host.strip() for text in both for host in text.split(",") if host.strip()]
    wanted = ["*"] if "*" in known else [*known, "127.0.0.1", "localhost", *hosts]
    os.environ["NO_PROXY"] = os.environ["no_proxy"] = ",".join(dict.fromkeys(wanted))


def choose() -> str:
    """``given`` when KUBECONFIG is set, ``kind`` when it and a Docker engine are there, else ``local``."""
    given = os.environ.get("KUBECONFIG")
    if given and given != str(_local_kubeconfig()):
        return "given"
    return "kind" if shutil.which("kind") and _docker_answers() else "local"


def kubeconfig_of(kind: str) -> Path:
    if kind == "given":
        return Path(os.environ["KUBECONFIG"]).expanduser()
    return KIND_KUBECONFIG if kind == "kind" else _local_kubeconfig()


def address_towards(node: str) -> str:
    """This machine's address on the way to the node; the node's own address when the node is this machine."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((node, 9))  # UDP: chooses a route, sends nothing
        return str(probe.getsockname()[0])


def _api_host(kubeconfig: Path) -> str:
    from kubernetes import config

    address = config.new_client_from_config(str(kubeconfig)).configuration.host
    return urllib.parse.urlsplit(address).hostname or ""


def _node_address(kubeconfig: Path) -> str:
    if override := os.environ.get("RAGOPS_HOST_IP"):
        return override
    from kubernetes import client, config
    from kubernetes.config.config_exception import ConfigException
    from urllib3.exceptions import HTTPError

    try:
        api = client.CoreV1Api(config.new_client_from_config(str(kubeconfig)))
        nodes = api.list_node(_request_timeout=10).items
    except (OSError, HTTPError, ConfigException, client.ApiException) as error:
        raise DemoError(f"cluster of {kubeconfig}: expected an answer; saw {error}. Check KUBECONFIG.") from error
    found = [one.address for node in nodes for one in node.status.addresses if one.type == "InternalIP"]
    if not found:
        raise DemoError(f"cluster of {kubeconfig}: expected a node with an InternalIP. Set RAGOPS_HOST_IP instead.")
    return str(found[0])


def _docker_answers() -> bool:
    if not shutil.which("docker"):
        return False
    try:
        return subprocess.run(["docker", "info"], capture_output=True, timeout=10, check=False).returncode == 0
    except subprocess.TimeoutExpired:
        return False


def _kind_up() -> None:
    """Written for machines with Docker and kind; not tried by this project's tests."""
    names = subprocess.run(["kind", "get", "clusters"], capture_output=True, text=True, timeout=30, check=True).stdout
    KIND_KUBECONFIG.parent.mkdir(parents=True, exist_ok=True)
    if KIND_CLUSTER in names.split():
        command = ["kind", "export", "kubeconfig", "--name", KIND_CLUSTER]
    else:
        command = ["kind", "create", "cluster", "--name", KIND_CLUSTER, "--wait", "120s"]
        OURS.write_text("kind")
    run("kind", [*command, "--kubeconfig", KIND_KUBECONFIG], CLUSTER_LOGS / "cluster.log", deadline=600)


def _local_up() -> None:
    if _local_healthy():
        return
    BUILD.mkdir(exist_ok=True)
    OURS.write_text("local")
    run("local cluster", [SCRIPTS / "up.sh"], CLUSTER_LOGS / "cluster.log", deadline=COMPILE_DEADLINE)


def _local_healthy(patience: float = 30.0) -> bool:
    """A busy node may answer late, and a bring-up would replace it: it gets a while before it counts as broken."""
    deadline = time.monotonic() + patience
    while True:
        status = subprocess.run([SCRIPTS / "status.sh"], capture_output=True, text=True, timeout=60, check=False)
        if status.returncode == 0:
            return True
        if status.stdout.startswith("not running") or time.monotonic() > deadline:
            return False
        time.sleep(2)


def _local_kubeconfig() -> Path:
    script = f'. "{SCRIPTS}/paths.sh" && printf %s "$ADMIN_KUBECONFIG"'
    return Path(subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=10, check=True).stdout)


def main(action: str) -> None:
    began = time.monotonic()
    if action == "down":
        print("cluster: down" if down() else "cluster: left as it is (KUBECONFIG)")
        return
    found = up()
    print(f"cluster: {found.kind}, KUBECONFIG={found.kubeconfig}, pods reach this machine at {found.node_ip} "
          f"({time.monotonic() - began:.0f} s)")


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except DemoError as error:
        sys.exit(str(error))
