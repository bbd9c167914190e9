"""Whether a pod template lets requests in flight come to their end. Pure."""

from __future__ import annotations

import re
from typing import Any

Json = dict[str, Any]

# Kubernetes' own, where a template names none.
DEFAULT_GRACE_SECONDS = 30
# A sleep, or the wait of the serving image's own hook.
_SLEEP = re.compile(r"(?:^|[\s;&|])(?:sleep|-m\s+\S+\.serving\.leaving)\s+(\d+(?:\.\d+)?)([smhd]?)\b")
_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}


def template_fault(found: Json) -> str:
    """Why a Deployment's pods can't stop in peace; empty where nothing is known against them.

    A preStop hook counts inside the grace period: one that sleeps as long leaves the server no time at all, and it is
    killed with its requests in flight. Hooks that do not say how long they take are not judged.
    """
    spec = found["spec"]["template"]["spec"]
    grace = spec.get("terminationGracePeriodSeconds")
    grace = DEFAULT_GRACE_SECONDS if grace is None else int(grace)
    for container in spec["containers"]:
        sleeps = _sleeps((container.get("lifecycle") or {}).get("preStop") or {})
        if sleeps and sleeps >= grace:
            return (f"the preStop hook of container {container['name']} sleeps {sleeps:g} s and the pod is killed after"
                    f" its terminationGracePeriodSeconds of {grace} s: requests in flight would be cut")
    return ""


def _sleeps(hook: Json) -> float:
    if "sleep" in hook:
        return float(hook["sleep"].get("seconds") or 0)
    command = " ".join((hook.get("exec") or {}).get("command") or [])
    return sum(float(number) * _UNITS[unit] for number, unit in _SLEEP.findall(command))
