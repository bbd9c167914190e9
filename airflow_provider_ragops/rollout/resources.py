"""What a pod asks for and what a node has left, in numbers. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from typing import Any

Json = dict[str, Any]
Amounts = dict[str, Decimal]

#: A node takes a limited number of pods; counted like any other resource.
PODS = "pods"
ONE_POD: Amounts = {PODS: Decimal(1)}
_NONE = Decimal(0)
_BINARY = {"Ti": 2**40, "Gi": 2**30, "Mi": 2**20, "Ki": 2**10}


def amounts(quantities: Mapping[str, Any] | None) -> Amounts:
    """Kubernetes quantities (``100m``, ``2Gi``) as numbers."""
    from kubernetes.utils.quantity import parse_quantity

    return {name: Decimal(parse_quantity(value)) for name, value in (quantities or {}).items()}


def requests_of(spec: Json) -> Amounts:
    """What the scheduler reserves for a pod: a container that names only a limit requests that much."""
    return _of_pod(spec, lambda resources: (resources.get("limits") or {}) | (resources.get("requests") or {}))


def limits_of(spec: Json) -> Amounts:
    return _of_pod(spec, lambda resources: resources.get("limits") or {})


def free_on(node: Json, pods: Iterable[Json]) -> Amounts:
    """The node's allocatable, less what its pods reserve. A Terminating pod holds its room until it is gone."""
    taken: Amounts = {}
    for pod in pods:
        taken = _sum(taken, _sum(requests_of(pod["spec"]), ONE_POD))
    return _sum(amounts((node.get("status") or {}).get("allocatable")), {name: -held for name, held in taken.items()})


def lack(wanted: Amounts, free: Amounts) -> Amounts:
    """What is free of the resources of which there is too little."""
    short = (name for name, amount in wanted.items() if amount > max(free.get(name, _NONE), _NONE))
    return {name: max(free.get(name, _NONE), _NONE) for name in short}


def shown(name: str, amount: Decimal) -> str:
    """An amount as a person writes it: memory in Gi or Mi, everything else as a plain number."""
    if name.endswith(("memory", "ephemeral-storage")) or "hugepages-" in name:
        for unit, size in _BINARY.items():
            if amount >= 10 * size:  # fewer would be rounded until wanted and free look equal
                return f"{float(round(amount / size, 1)):g}{unit}"
    return f"{amount.normalize():f}"


def _of_pod(spec: Json, choose: Callable[[Json], Json]) -> Amounts:
    """As the scheduler counts (KEP-753): all containers that run together, or the largest moment of the start."""
    lasting, peak = Amounts(), Amounts()  # lasting: init containers that go on running beside the others
    for container in spec.get("initContainers") or []:
        moment = _sum(lasting, _of(container, choose))
        if container.get("restartPolicy") == "Always":
            lasting = moment
        peak = _most(peak, moment)
    running = lasting
    for container in spec["containers"]:
        running = _sum(running, _of(container, choose))
    # Of the whole pod, where the cluster knows such: they stand instead of the containers'.
    total = _most(running, peak) | _of(spec, choose)
    return _sum(total, amounts(spec.get("overhead")))


def _of(part: Json, choose: Callable[[Json], Json]) -> Amounts:
    return amounts(choose(part.get("resources") or {}))


def _sum(one: Amounts, other: Amounts) -> Amounts:
    return {name: one.get(name, _NONE) + other.get(name, _NONE) for name in one | other}


def _most(one: Amounts, other: Amounts) -> Amounts:
    return {name: max(one.get(name, _NONE), other.get(name, _NONE)) for name in one | other}
