"""Read what a cluster has room for. What the account may not read is no reason to stop a release."""

from __future__ import annotations

import logging
from typing import Any

from airflow_provider_ragops.exceptions import ClusterError, UnreachableError
from airflow_provider_ragops.kube import Kube
from airflow_provider_ragops.rollout.feasibility import Room

log = logging.getLogger(__name__)
Json = dict[str, Any]

# Ended pods hold no room, and there can be many.
ALIVE = "status.phase!=Succeeded,status.phase!=Failed"


def read_room(kube: Kube, namespace: str) -> Room:
    """Nodes and pods of the whole cluster, and the namespace's quotas."""
    unread: list[str] = []

    def listed(path: str, fields: str = "") -> list[Json] | None:
        try:
            return kube.list(path, "", fields)
        except (ClusterError, UnreachableError) as error:
            unread.append(f"{path.rpartition('/')[2]} can't be read ({error.seen})")
            return None

    quotas = listed(f"/api/v1/namespaces/{namespace}/resourcequotas")
    nodes = listed("/api/v1/nodes")
    pods = None if nodes is None else listed("/api/v1/pods", ALIVE)
    return Room(nodes, pods, quotas, "; ".join(unread))
