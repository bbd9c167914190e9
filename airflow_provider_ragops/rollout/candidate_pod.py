"""The pod beside the tier in which a candidate shows that it loads and answers: how it is made and read. Pure."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from airflow_provider_ragops.contract import LABEL_BLESSING, ServingTarget, dns_name
from airflow_provider_ragops.rollout.plan import set_version
from airflow_provider_ragops.rollout.reading import ENDED, condition, of_container, read_pod, said

Json = dict[str, Any]

#: A condition that nobody ever sets. The pod is never Ready, so that no Service whatever sends it a request.
NEVER_READY = LABEL_BLESSING
# No request but ours is in flight when it is told to stop.
GRACE_SECONDS = 5
# Ended for another reason than its containers': evicted, out of a node's resources, the node is shut down or lost.
_OWN_DEADLINE = "DeadlineExceeded"


class Verdict(StrEnum):
    BLESSED = "blessed"
    NOT_BLESSED = "not blessed"  # the version's own doing
    NO_ROOM = "no room"  # it could not be scheduled: nothing is known about the version
    NOT_POSSIBLE = "not possible"  # it did not come to run, or could not be asked: nothing is known, either


@dataclass(frozen=True)
class Blessing:
    """``reason`` is empty where the version is blessed."""

    state: Verdict
    reason: str = ""


def build(found: Json, service: Json | None, target: ServingTarget, version: str, token: int, seconds: float) -> Json:
    """The Deployment's own pod with the candidate's version, which neither Deployment nor Service take for theirs.

    :param found: the Deployment; it owns the pod, so that the pod goes with it.
    :param service: the target's Service, where there is one.
    :param seconds: after which the kubelet ends it, should nobody be left to delete it.
    """
    template = copy.deepcopy(found["spec"]["template"])
    set_version(template, target, version)
    spec, metadata = template["spec"], template.get("metadata") or {}
    labels = _unselected(metadata.get("labels") or {}, found, service)
    for container in spec["containers"]:
        (container.get("lifecycle") or {}).pop("preStop", None)
    spec |= {
        "restartPolicy": "Never", "activeDeadlineSeconds": int(seconds),
        "terminationGracePeriodSeconds": GRACE_SECONDS, "readinessGates": [{"conditionType": NEVER_READY}],
    }
    return {"apiVersion": "v1", "kind": "Pod", "spec": spec, "metadata": {
        "name": dns_name(f"{target.deployment}-blessing-v{version}-{token}"), "namespace": target.namespace,
        "labels": labels | {LABEL_BLESSING: target.deployment},
        "annotations": metadata.get("annotations") or {},
        # Not its controller: nobody counts or replaces the pod.
        "ownerReferences": [{
            "apiVersion": "apps/v1", "kind": "Deployment", "name": found["metadata"]["name"],
            "uid": found["metadata"]["uid"], "controller": False, "blockOwnerDeletion": False,
        }],
    }}


def ended(found: Json, container: str) -> Blessing | None:
    """The verdict over a pod that will not turn Ready any more; None while it may."""
    status = found.get("status") or {}
    if found["metadata"].get("deletionTimestamp"):
        return Blessing(Verdict.NOT_POSSIBLE, "the pod was deleted by someone else, or preempted")
    exited = (of_container(status, container).get("state") or {}).get("terminated") or _failed_start(status)
    if status.get("phase") in ENDED and status.get("reason") not in (None, "", _OWN_DEADLINE):
        return Blessing(Verdict.NOT_POSSIBLE, f"the pod was ended: {said(status)}")
    if exited:
        code = f"exit code {exited.get('exitCode')}"
        return Blessing(Verdict.NOT_BLESSED, ": ".join(text for text in (code, said(exited)) if text))
    if status.get("phase") in ENDED:
        return Blessing(Verdict.NOT_BLESSED, f"the pod ended in phase {status['phase']}: {said(status)}")
    return None


def out_of_time(found: Json, container: str, seconds: float, words: str) -> Blessing:
    """The verdict over a pod that is not ready to be asked after ``seconds``.

    :param words: what it says about itself, if anything.
    """
    pod = read_pod(found, container)
    if not pod.placed:
        return Blessing(Verdict.NO_ROOM, f"{pod.waits} (for {seconds:g} s)")
    if not pod.running:
        return Blessing(Verdict.NOT_POSSIBLE, f"not started after {seconds:g} s: {pod.waits or 'no reason given'}")
    return Blessing(Verdict.NOT_BLESSED, f"not ready after {seconds:g} s: {words or 'it says nothing'}")


def can_be_asked(found: Json) -> bool:
    """Its own probes are content; the pod as a whole never is (see :data:`NEVER_READY`)."""
    return bool(condition(found.get("status") or {}, "ContainersReady").get("status") == "True")


def _unselected(labels: dict[str, str], found: Json, service: Json | None) -> dict[str, str]:
    selector = found["spec"]["selector"]
    selecting = {*(selector.get("matchLabels") or {}), *(one["key"] for one in selector.get("matchExpressions") or [])}
    selecting |= set(((service or {}).get("spec") or {}).get("selector") or {})
    return {key: value for key, value in labels.items() if key not in selecting}


def _failed_start(status: Json) -> Json:
    """How an init container failed; empty where none did."""
    for container in status.get("initContainerStatuses") or []:
        exited: Json = (container.get("state") or {}).get("terminated") or {}
        if exited.get("exitCode"):
            return exited
    return {}
