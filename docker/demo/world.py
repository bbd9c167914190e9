"""What the demo left behind and finds again: state on disk that belongs to one cluster, and its removal."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from demo import chart
from demo import cluster as clusters
from demo.background import Background
from demo.errors import DemoError
from demo.paths import DEMO, STATE

MARK = STATE / "cluster.json"


def background() -> Background:
    return Background(DEMO)


def found() -> bool:
    """True when an earlier run left its state."""
    return MARK.exists()


def enter(cluster: clusters.Cluster) -> bool:
    """Make the state folder for this cluster; False when it is there from an earlier run.

    MLflow's versions and the Deployment's release record only make sense together: when the cluster or a namespace is
    another than last time, or the state is gone, both sides start afresh.

    :raises DemoError: when a namespace is not ours; nothing was changed then.
    """
    tier, uid, mark = chart.ServingTier.of(cluster), chart.cluster_uid(cluster), _mark()
    tier.check()
    same_cluster = mark.get("uid") == uid
    if same_cluster and _tier(mark).namespaces == tier.namespaces:
        return False
    background().stop_all()
    shutil.rmtree(STATE, ignore_errors=True)
    if same_cluster:
        _tier(mark).remove()
    tier.remove()
    STATE.mkdir(parents=True)
    MARK.write_text(json.dumps({
        "kind": cluster.kind, "kubeconfig": str(cluster.kubeconfig), "uid": uid, "namespaces": tier.namespaces,
    }))
    return True


def leave(say: Callable[[str], None], *, cluster: bool = True) -> None:
    """End the services; take our cluster down, or remove what the demo put on another's; forget the state.

    :param cluster: False leaves our cluster up too, and only removes what the demo put on it.

    Safe to repeat, and after a start that was cut short.
    """
    for name in background().stop_all():
        say(f"{name}: stopped")
    mark = _mark()
    if mark and not (cluster and mark["kind"] == clusters.ours()):
        _leave_cluster(_tier(mark), say)
    if cluster and clusters.down(only_ours=True):
        say("cluster: down")
    shutil.rmtree(STATE, ignore_errors=True)


def _leave_cluster(tier: chart.ServingTier, say: Callable[[str], None]) -> None:
    from kubernetes.client import ApiException
    from urllib3.exceptions import HTTPError

    try:
        tier.remove(wait=False)
        say("serving tier: removed from the cluster, which was there before and stays")
    except (DemoError, ApiException, HTTPError, OSError) as error:
        say(f"serving tier: could not be removed from the cluster of {tier.cluster.kubeconfig} ({error})")


def _tier(mark: dict[str, Any]) -> chart.ServingTier:
    cluster = clusters.Cluster(mark["kind"], Path(mark["kubeconfig"]), "")
    return chart.ServingTier(cluster, **mark.get("namespaces", {}))


def _mark() -> dict[str, Any]:
    try:
        mark: dict[str, Any] = json.loads(MARK.read_text())
    except FileNotFoundError:
        return {}
    return mark
