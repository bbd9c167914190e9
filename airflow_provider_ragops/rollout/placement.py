"""Whether a node takes a pod at all, whatever room it has: taints, selectors, required node affinity. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

Json = dict[str, Any]

_CORDONED = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
_BLOCKING = frozenset({"NoSchedule", "NoExecute"})


class UnjudgedError(ValueError):
    """An operator that this file does not know."""


def refusal(node: Json, pod: Json) -> str:
    """Why the node does not take a pod of this spec; empty where it does.

    :raises UnjudgedError: where that can't be told.
    """
    labels = node["metadata"].get("labels") or {}
    if not _is_ready(node):
        return "not ready"
    for taint in _taints(node):
        if not any(_tolerates(toleration, taint) for toleration in pod.get("tolerations") or []):
            return f"taint {taint['key']}" if taint != _CORDONED else "cordoned"
    if any(labels.get(key) != value for key, value in (pod.get("nodeSelector") or {}).items()):
        return "node selector"
    terms = _required(pod, "nodeAffinity").get("nodeSelectorTerms")
    if terms is not None and not any(_matches(term, labels, node["metadata"]["name"]) for term in terms):
        return "node affinity"
    return ""


def unjudged(pod: Json) -> Iterator[str]:
    """What else the scheduler looks at: it may leave out a node that has the room."""
    if _required(pod, "podAffinity") or _required(pod, "podAntiAffinity"):
        yield "required affinity to other pods"
    spread = pod.get("topologySpreadConstraints") or []
    if any(one.get("whenUnsatisfiable", "DoNotSchedule") == "DoNotSchedule" for one in spread):
        yield "a topology spread that must hold"
    containers = [*(pod.get("initContainers") or []), *pod["containers"]]
    if any(port.get("hostPort") for container in containers for port in container.get("ports") or []):
        yield "ports of the host"
    if any("persistentVolumeClaim" in volume or "ephemeral" in volume for volume in pod.get("volumes") or []):
        yield "volumes that may be bound to a place"
    if pod.get("resourceClaims"):
        yield "resource claims"
    if pod.get("schedulerName", "default-scheduler") != "default-scheduler":
        yield f"scheduler {pod['schedulerName']}"


def _is_ready(node: Json) -> bool:
    conditions = (node.get("status") or {}).get("conditions") or []
    return all(one["status"] == "True" for one in conditions if one["type"] == "Ready")


def _taints(node: Json) -> Iterator[Json]:
    spec = node.get("spec") or {}
    if spec.get("unschedulable"):
        yield _CORDONED
    yield from (taint for taint in spec.get("taints") or [] if taint["effect"] in _BLOCKING)


def _tolerates(toleration: Json, taint: Json) -> bool:
    if toleration.get("effect") and toleration["effect"] != taint["effect"]:
        return False
    key = toleration.get("key")
    if toleration.get("operator", "Equal") == "Exists":
        return not key or bool(key == taint["key"])
    return bool(key == taint["key"]) and (toleration.get("value") or "") == (taint.get("value") or "")


def _required(pod: Json, kind: str) -> Json:
    affinity = (pod.get("affinity") or {}).get(kind) or {}
    found = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    return found if isinstance(found, dict) else {"terms": found}


def _matches(term: Json, labels: Json, name: str) -> bool:
    """All expressions of a term must hold; an empty term matches nothing."""
    expressions = term.get("matchExpressions") or []
    fields = term.get("matchFields") or []
    if not expressions and not fields:
        return False
    return all(_holds(one, labels) for one in expressions) and all(
        _holds(one, {"metadata.name": name}) for one in fields
    )


def _holds(expression: Json, labels: Json) -> bool:
    operator = expression["operator"]
    if operator not in _OPERATORS:
        raise UnjudgedError(f"operator {operator} in a node affinity")
    return _OPERATORS[operator](labels.get(expression["key"]), expression.get("values") or [])


def _compared(value: str | None, bound: str) -> int | None:
    """The difference of two whole numbers; None where one is missing or none."""
    try:
        return None if value is None else int(value) - int(bound)
    except ValueError:
        return None


_OPERATORS: dict[str, Callable[[str | None, list[str]], bool]] = {
    "In": lambda value, values: value in values,
    "NotIn": lambda value, values: value not in values,
    "Exists": lambda value, _: value is not None,
    "DoesNotExist": lambda value, _: value is None,
    "Gt": lambda value, values: (_compared(value, values[0]) or 0) > 0,
    "Lt": lambda value, values: (_compared(value, values[0]) or 0) < 0,
}
