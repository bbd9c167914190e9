"""What a rollout needs of the API server's objects, read once. Pure; a field may be missing or null."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from airflow_provider_ragops.contract import ENV_MODEL_VERSION

Json = dict[str, Any]

# A waiting reason that is the version's own doing, once the container has been tried this often. A release changes
# no image: trouble with one is the node's or the registry's and may pass before the deadline.
CRASHING = "CrashLoopBackOff"
CRASHES_ALLOWED = 2
# Left behind by evictions and node shutdowns; a ReplicaSet neither counts nor deletes them.
ENDED = frozenset({"Failed", "Succeeded"})
# Every container passes through these on its way; they explain nothing.
STARTING = frozenset({"ContainerCreating", "PodInitializing"})
LONGEST = 400


@dataclass(frozen=True)
class Pod:
    """One pod as the rollout sees it.

    :param version: what its template assigned, ``""`` for none.
    :param running: the serving container runs.
    :param trouble: why it is hopeless; its version's own doing.
    :param waits: why it is not running yet, in the scheduler's or the kubelet's words.
    :param placed: a node was found for it.
    :param answered: it said itself that it serves its version, and gave a good answer.
    """

    name: str
    version: str
    ready: bool
    terminating: bool
    trouble: str = ""
    ended: bool = False
    running: bool = False
    waits: str = ""
    placed: bool = True
    answered: bool = False


@dataclass(frozen=True)
class Rollout:
    """One Deployment as the rollout sees it.

    :param template: the whole pod template, as text to compare.
    :param makes_room: a pod goes before its successor comes, so that one is refused for a while in a full quota.
    """

    uid: str
    generation: int
    observed_generation: int
    version: str
    desired: int
    replicas: int
    updated: int
    available: int
    paused: bool
    deadline_exceeded_at: str
    replica_failure: str = ""
    template: str = ""
    makes_room: bool = False


def read_rollout(found: Json, container: str) -> Rollout:
    """Read the API server's Deployment object."""
    spec, status = found["spec"], found.get("status") or {}
    replicas = spec.get("replicas")
    return Rollout(
        uid=found["metadata"]["uid"],
        generation=int(found["metadata"].get("generation") or 0),
        observed_generation=int(status.get("observedGeneration") or 0),
        version=version_of(spec["template"], container),
        desired=1 if replicas is None else int(replicas),
        replicas=int(status.get("replicas") or 0),
        updated=int(status.get("updatedReplicas") or 0),
        available=int(status.get("availableReplicas") or 0),
        paused=bool(spec.get("paused")),
        deadline_exceeded_at=_deadline_exceeded_at(status),
        replica_failure=_replica_failure(status),
        template=json.dumps(spec["template"], sort_keys=True),
        makes_room=((spec.get("strategy") or {}).get("rollingUpdate") or {}).get("maxSurge") == 0,
    )


def read_pod(found: Json, container: str) -> Pod:
    """Read the API server's Pod object."""
    status = found.get("status") or {}
    ready = condition(status, "Ready").get("status") == "True"
    scheduled = condition(status, "PodScheduled")
    own = of_container(status, container)
    return Pod(
        name=found["metadata"]["name"],
        version=version_of(found, container),
        ready=ready,
        terminating=bool(found["metadata"].get("deletionTimestamp")),
        trouble="" if ready else _trouble(status),
        ended=status.get("phase") in ENDED,
        running="running" in (own.get("state") or {}),
        waits="" if ready else _waits(status, scheduled),
        placed=scheduled.get("status") != "False",
    )


def version_of(template: Json, container: str) -> str:
    """The MODEL_VERSION that a pod (template) assigns to the container; ``""`` for none."""
    for found in template["spec"]["containers"]:
        if found["name"] == container:
            for variable in found.get("env") or []:
                if variable["name"] == ENV_MODEL_VERSION:
                    return str(variable.get("value") or "")
    return ""


def selector_text(selector: Json) -> str:
    """A label selector as the text that a list takes."""
    equal = [f"{key}={value}" for key, value in (selector.get("matchLabels") or {}).items()]
    terms = [_TERMS[one["operator"]].format(one["key"], ",".join(sorted(one.get("values") or [])))
             for one in selector.get("matchExpressions") or []]
    return ",".join(sorted([*equal, *terms]))


_TERMS = {"In": "{0} in ({1})", "NotIn": "{0} notin ({1})", "Exists": "{0}", "DoesNotExist": "!{0}"}


def condition(status: Json, kind: str) -> Json:
    """The condition of that type; empty where there is none."""
    return next((one for one in status.get("conditions") or [] if one["type"] == kind), {})


def of_container(status: Json, name: str) -> Json:
    """The status of that container; empty where there is none yet."""
    return next((one for one in status.get("containerStatuses") or [] if one.get("name", name) == name), {})


def waiting(status: Json) -> Iterator[tuple[Json, Json]]:
    """Each container that waits, init containers first: its status, and what it waits for."""
    for container in [*(status.get("initContainerStatuses") or []), *(status.get("containerStatuses") or [])]:
        waits = (container.get("state") or {}).get("waiting")
        if waits:
            yield container, waits


def said(part: Json) -> str:
    """Reason and message of a condition or a state, cut short."""
    return ": ".join(text for text in (part.get("reason"), part.get("message")) if text)[:LONGEST]


def _deadline_exceeded_at(status: Json) -> str:
    found = condition(status, "Progressing")
    exceeded = found.get("reason") == "ProgressDeadlineExceeded"
    return str(found.get("lastUpdateTime") or "unknown time") if exceeded else ""


def _replica_failure(status: Json) -> str:
    found = condition(status, "ReplicaFailure")
    return (said(found) or "no reason given") if found.get("status") == "True" else ""


def _trouble(status: Json) -> str:
    for container, waits in waiting(status):
        crashes = int(container.get("restartCount") or 0)
        if waits.get("reason") == CRASHING and crashes >= CRASHES_ALLOWED:
            return f"{CRASHING} after {crashes} restarts: {(waits.get('message') or '')[:200]}"
    return ""


def _waits(status: Json, scheduled: Json) -> str:
    if scheduled.get("status") == "False":
        return f"not scheduled: {said(scheduled)}"
    return "; ".join(said(waits) for _, waits in waiting(status) if waits.get("reason") not in STARTING)
