"""Whether a namespace's ResourceQuotas leave room for one pod more. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from airflow_provider_ragops.rollout.resources import ONE_POD, PODS, Amounts, amounts, limits_of, requests_of, shown

Json = dict[str, Any]

# What a quota names without "requests." and counts as such.
_PLAIN = frozenset({"cpu", "memory", "ephemeral-storage"})
# A quota on these refuses a pod that does not name them, unless a LimitRange gives it a default.
_MUST_BE_NAMED = frozenset({"cpu", "memory"})
# A server's pods have no deadline, and are never best effort once they name a resource.
_OURS = frozenset({"NotTerminating", "NotBestEffort"})
_OTHERS = frozenset({"Terminating", "BestEffort"})


def objections(quotas: list[Json], pod: Json) -> Iterator[tuple[str, bool]]:
    """What stands against one pod more: a reason, and whether it is certain."""
    for quota in quotas:
        name, spec = quota["metadata"]["name"], quota.get("spec") or {}
        scopes = set(spec.get("scopes") or [])
        if scopes & _OTHERS:
            continue
        if spec.get("scopeSelector") or scopes - _OURS:
            yield f"ResourceQuota {name} has scopes that are not judged", False
            continue
        yield from _of_quota(name, quota.get("status") or {}, pod)


def _of_quota(name: str, status: Json, pod: Json) -> Iterator[tuple[str, bool]]:
    hard, used = amounts(status.get("hard")), amounts(status.get("used"))
    for key, limit in hard.items():
        resource, wanted = _wanted(key, pod)
        if resource == "":
            continue
        free = max(limit - used.get(key, Decimal(0)), Decimal(0))
        if resource in _MUST_BE_NAMED and resource not in wanted:
            yield f"ResourceQuota {name} limits {key}, which the pod does not name (a LimitRange may)", False
        elif wanted.get(resource, Decimal(0)) > free:
            asked = shown(key, wanted[resource])
            yield f"ResourceQuota {name}: {key}: {asked} wanted, {shown(key, free)} of {shown(key, limit)} free", True


def _wanted(key: str, pod: Json) -> tuple[str, Amounts]:
    """The resource that a quota's key is about and what the pod wants; an empty name where it is not about pods."""
    if key in (PODS, "count/pods"):
        return PODS, ONE_POD
    kind, _, resource = key.partition(".")
    if kind == "limits":
        return resource, limits_of(pod)
    if kind == "requests" and resource != "storage":
        return resource, requests_of(pod)
    return (key, requests_of(pod)) if key in _PLAIN or key.startswith("hugepages-") else ("", {})
