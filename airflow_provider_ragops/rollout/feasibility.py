"""Can one more pod of a Deployment be scheduled, and how does a rollout go then? Pure.

Judged from what nodes can allocate, less what their pods reserve, and from the namespace's quotas: as of now. What
admission adds to a pod (sidecars, a LimitRange's defaults) is not seen, and neither is room that a cluster autoscaler
would bring. With one, leave ``releaser.nodeReader`` of the chart off: the answer is "unknown" then, and the pod
beside the tier (``rollout/blessing.py``) is what makes the autoscaler act.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from airflow_provider_ragops.exceptions import ReleaseRefusedError
from airflow_provider_ragops.rollout.placement import UnjudgedError, refusal, unjudged
from airflow_provider_ragops.rollout.plan import MAKE_ROOM, USUAL, Strategy
from airflow_provider_ragops.rollout.quota import objections
from airflow_provider_ragops.rollout.resources import ONE_POD, Amounts, free_on, lack, requests_of, shown

Json = dict[str, Any]

_ENDED = frozenset({"Succeeded", "Failed"})


class Fit(StrEnum):
    FITS = "fits"
    NO = "does not fit"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Feasibility:
    state: Fit
    reason: str


@dataclass(frozen=True)
class Room:
    """What could be read of the cluster; ``None`` where the account may not read it, and ``unread`` says why."""

    nodes: list[Json] | None
    pods: list[Json] | None
    quotas: list[Json] | None
    unread: str = ""


def judge(template: Json, room: Room) -> Feasibility:
    """Whether one pod of this template can be scheduled beside all that are there."""
    pod = template["spec"]
    against = list(objections(room.quotas or [], pod))
    doubts = [reason for reason, certain in against if not certain]
    by_nodes = _on_nodes(pod, room)
    certain = [reason for reason, sure in against if sure]
    if by_nodes.state is Fit.NO:
        certain.append(by_nodes.reason)
    if certain:
        return Feasibility(Fit.NO, "; ".join(certain))
    if by_nodes.state is Fit.UNKNOWN:
        doubts.append(by_nodes.reason)
    if room.quotas is None:
        doubts.append(room.unread)
    return Feasibility(Fit.UNKNOWN, "; ".join(dict.fromkeys(doubts))) if doubts else by_nodes


def strategy_for(
    feasibility: Feasibility, *, allow_unavailable: bool, subject: str, serving: bool = True,
) -> Strategy:
    """How to roll: one pod more at a time; where there is no room, one less, if that is allowed.

    :param allow_unavailable: the target's setting.
    :param serving: whether any pod serves a version now; where none does, one less costs nothing.
    :raises ReleaseRefusedError: when there is no room and one less is not allowed.
    """
    if feasibility.state is not Fit.NO:
        return USUAL
    if allow_unavailable or not serving:
        return MAKE_ROOM
    raise ReleaseRefusedError(
        f"release to {subject}", expected="room for one pod more while versions change", seen=feasibility.reason,
        action="Nothing was touched. Free that or add a node, then clear this task; or set allow_unavailable on the "
               "target: then one pod goes before its successor comes.",
    )


def undo_strategy(feasibility: Feasibility) -> Strategy:
    """How to go back: never so that it waits for room that only a pod of the version taken back could free."""
    return USUAL if feasibility.state is Fit.FITS else Strategy(1, 1)


def _on_nodes(pod: Json, room: Room) -> Feasibility:
    if room.nodes is None or room.pods is None:
        return Feasibility(Fit.UNKNOWN, room.unread)
    try:
        refusals = {node["metadata"]["name"]: refusal(node, pod) for node in room.nodes}
    except UnjudgedError as error:
        return Feasibility(Fit.UNKNOWN, f"{error} is not judged")
    taking = [node for node in room.nodes if not refusals[node["metadata"]["name"]]]
    if not taking:
        return _preempting(pod, _none_takes(list(refusals.values())))
    wanted = requests_of(pod) | ONE_POD
    short = _short(wanted, taking, room.pods)
    fitting = [name for name, missing in short.items() if not missing]
    if not fitting:
        return _later(wanted, taking, room.pods) or _preempting(pod, _too_little(wanted, list(short.values())))
    if features := list(unjudged(pod)):
        return Feasibility(Fit.UNKNOWN, f"there is room, but this is not judged: {', '.join(features)}")
    return Feasibility(Fit.FITS, f"node {fitting[0]} has room for a pod more")


def _short(wanted: Amounts, nodes: list[Json], pods: list[Json]) -> dict[str, Amounts]:
    """What lacks, by node; nothing where the pod has room."""
    return {node["metadata"]["name"]: lack(wanted, free_on(node, _on(node, pods))) for node in nodes}


def _later(wanted: Amounts, nodes: list[Json], pods: list[Json]) -> Feasibility | None:
    """A Terminating pod holds its room until it is gone, which is a matter of seconds, unless its node is lost."""
    staying = [pod for pod in pods if not (pod.get("metadata") or {}).get("deletionTimestamp")]
    for name, missing in _short(wanted, nodes, staying).items():
        if not missing:
            return Feasibility(Fit.UNKNOWN, f"node {name} has room once its Terminating pods are gone")
    return None


def _preempting(pod: Json, reason: str) -> Feasibility:
    if name := pod.get("priorityClassName"):
        return Feasibility(Fit.UNKNOWN, f"{reason}; priority class {name} may make room")
    return Feasibility(Fit.NO, reason)


def _on(node: Json, pods: list[Json]) -> list[Json]:
    name = node["metadata"]["name"]
    return [
        pod for pod in pods
        if pod["spec"].get("nodeName") == name and (pod.get("status") or {}).get("phase") not in _ENDED
    ]


def _none_takes(refusals: list[str]) -> str:
    counts = ", ".join(f"{count} {reason}" for reason, count in sorted(Counter(refusals).items()))
    return f"none of {len(refusals)} nodes takes the pod: {counts}" if refusals else "the cluster has no nodes"


def _too_little(wanted: Amounts, short: list[Amounts]) -> str:
    """What lacks everywhere; where each node lacks something else, what lacks anywhere."""
    everywhere = [name for name in wanted if all(name in missing for missing in short)]
    lines = []
    for name in everywhere or [name for name in wanted if any(name in missing for missing in short)]:
        most = max(missing[name] for missing in short if name in missing)
        free = f"at most {shown(name, most)} free" if most else "0 free"
        lines.append(f"{name}: {shown(name, wanted[name])} wanted, {free} on {_nodes(short, name)}")
    return "; ".join(lines)


def _nodes(short: list[Amounts], name: str) -> str:
    count = sum(name in missing for missing in short)
    return "1 node" if count == 1 else f"{count} nodes"
