"""What the demo left behind and finds again: state on disk that belongs to one cluster, and its removal."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

from demo import chart
from demo import cluster as clusters
from demo.background import Background
from demo.errors import DemoError
from demo.paths import DEMO, STATE

MARK = STATE / "cluster.json"


def background() -> Background:
    return Background(DEMO)


def enter(cluster: clusters.Cluster) -> None:
    """Make the state folder for this cluster.

    MLflow's versions and the Deployment's release record only make sense together: when the cluster is another than
    last time, or the state is gone, both sides start afresh.
    """
    uid = chart.cluster_uid(cluster)
    if _mark().get("uid") == uid:
        return
    background().stop_all()
    shutil.rmtree(STATE, ignore_errors=True)
    chart.ServingTier(cluster).remove()
    STATE.mkdir(parents=True)
    MARK.write_text(json.dumps({"kind": cluster.kind, "kubeconfig": str(cluster.kubeconfig), "uid": uid}))


def leave(say: Callable[[str], None]) -> None:
    """End the services; take our cluster down, or remove what the demo put on another's; forget the state.

    Safe to repeat, and after a start that was cut short.
    """
    for name in background().stop_all():
        say(f"{name}: stopped")
    mark = _mark()
    if clusters.down(only_ours=True):
        say("cluster: down")
    elif mark:
        _leave_cluster(clusters.Cluster(mark["kind"], Path(mark["kubeconfig"]), ""), say)
    shutil.rmtree(STATE, ignore_errors=True)


def _leave_cluster(cluster: clusters.Cluster, say: Callable[[str], None]) -> None:
    from kubernetes.client import ApiException
    from urllib3.exceptions import HTTPError

    try:
        chart.ServingTier(cluster).remove(wait=False)
        say("serving tier: removed from the cluster, which was not brought up here and stays")
    except (DemoError, ApiException, HTTPError, OSError) as error:
        say(f"serving tier: the cluster of {cluster.kubeconfig} did not answer, nothing removed there ({error})")


def _mark() -> dict[str, str]:
    try:
        found: dict[str, str] = json.loads(MARK.read_text())
    except FileNotFoundError:
        return {}
    return found
