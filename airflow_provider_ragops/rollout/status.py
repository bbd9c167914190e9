"""How far a rolling update is: a pure reading of the Deployment and its pods.

The ladder follows ``kubectl rollout status`` and goes on where that one stops: it binds the answer to our own write
(same UID, our template), counts Terminating pods, and does not believe a ProgressDeadlineExceeded from before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from airflow_provider_ragops.contract import ENV_MODEL_VERSION

Json = dict[str, Any]

# A waiting reason that is the version's own doing, once the container has been tried this often. A release changes
# no image: trouble with one is the node's or the registry's and may pass before the deadline.
CRASHING = "CrashLoopBackOff"
CRASHES_ALLOWED = 2
# Left behind by evictions and node shutdowns; a ReplicaSet neither counts nor deletes them.
ENDED = frozenset({"Failed", "Succeeded"})


class State(StrEnum):
    WAITING = "waiting"
    DONE = "done"
    FAILED = "failed"


@dataclass(frozen=True)
class Progress:
    state: State
    reason: str


@dataclass(frozen=True)
class Pod:
    """One pod as the rollout sees it; ``version`` is what its template assigned, ``""`` for none."""

    name: str
    version: str
    ready: bool
    terminating: bool
    trouble: str = ""
    ended: bool = False


@dataclass(frozen=True)
class Rollout:
    """One Deployment as the rollout sees it."""

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


def classify(seen: Rollout, pods: Sequence[Pod], *, written: Rollout, version: str) -> Progress:
    """Judge ``seen`` against ``written``, the Deployment as our own write returned it."""
    failure = _failure(seen, pods, written, version)
    if failure:
        return Progress(State.FAILED, failure)
    waiting = _waiting(seen, pods, written, version)
    return Progress(State.WAITING, waiting) if waiting else Progress(State.DONE, f"{seen.desired} pods serve {version}")


def _failure(seen: Rollout, pods: Sequence[Pod], written: Rollout, version: str) -> str:
    if seen.uid != written.uid:
        return "the Deployment was deleted and made anew"
    if seen.version != version:
        return f"someone else set MODEL_VERSION to {seen.version!r}"
    if seen.paused:
        return "the Deployment is paused"
    for pod in pods:
        if pod.version == version and pod.trouble and not pod.terminating:
            return f"pod {pod.name}: {pod.trouble}"
    if seen.observed_generation >= written.generation and seen.deadline_exceeded_at != written.deadline_exceeded_at:
        return f"ProgressDeadlineExceeded at {seen.deadline_exceeded_at}" if seen.deadline_exceeded_at else ""
    return ""


def _waiting(seen: Rollout, pods: Sequence[Pod], written: Rollout, version: str) -> str:
    if seen.observed_generation < written.generation:
        return "the controller has not seen the change yet"
    if seen.updated < seen.desired:
        return f"{seen.updated} of {seen.desired} pods updated"
    if seen.replicas > seen.updated:
        return f"{seen.replicas - seen.updated} old pods still there"
    if seen.available < seen.desired:
        return f"{seen.available} of {seen.desired} updated pods available"
    leaving = [pod.name for pod in pods if pod.version != version or pod.terminating]
    return f"old pods still draining: {', '.join(sorted(leaving))}" if leaving else ""


def read_rollout(found: Json, container: str) -> Rollout:
    """Read the API server's Deployment object."""
    spec, status = found["spec"], found.get("status", {})
    return Rollout(
        uid=found["metadata"]["uid"],
        generation=int(found["metadata"].get("generation", 0)),
        observed_generation=int(status.get("observedGeneration", 0)),
        version=version_of(spec["template"], container),
        desired=int(spec.get("replicas", 1)),
        replicas=int(status.get("replicas", 0)),
        updated=int(status.get("updatedReplicas", 0)),
        available=int(status.get("availableReplicas", 0)),
        paused=bool(spec.get("paused", False)),
        deadline_exceeded_at=_deadline_exceeded_at(status),
    )


def read_pod(found: Json, container: str) -> Pod:
    """Read the API server's Pod object."""
    status = found.get("status", {})
    ready = any(c["type"] == "Ready" and c["status"] == "True" for c in status.get("conditions", []))
    return Pod(
        name=found["metadata"]["name"],
        version=version_of(found, container),
        ready=ready,
        terminating=bool(found["metadata"].get("deletionTimestamp")),
        trouble="" if ready else _trouble(status),
        ended=status.get("phase") in ENDED,
    )


def version_of(template: Json, container: str) -> str:
    """The MODEL_VERSION that a pod (template) assigns to the container; ``""`` for none."""
    for found in template["spec"]["containers"]:
        if found["name"] == container:
            for variable in found.get("env") or []:
                if variable["name"] == ENV_MODEL_VERSION:
                    return str(variable.get("value", ""))
    return ""


def _deadline_exceeded_at(status: Json) -> str:
    for condition in status.get("conditions", []):
        if condition["type"] == "Progressing" and condition.get("reason") == "ProgressDeadlineExceeded":
            return str(condition.get("lastUpdateTime", "unknown time"))
    return ""


def _trouble(status: Json) -> str:
    for container in status.get("containerStatuses") or []:
        waiting = (container.get("state") or {}).get("waiting") or {}
        crashes = int(container.get("restartCount", 0))
        if waiting.get("reason") == CRASHING and crashes >= CRASHES_ALLOWED:
            return f"{CRASHING} after {crashes} restarts: {waiting.get('message', '')[:200]}"
    return ""
