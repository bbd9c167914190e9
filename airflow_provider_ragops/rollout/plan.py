"""The change to a Deployment, as data: what is written in one replace. Pure."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

from airflow_provider_ragops.contract import ANNOTATION_RELEASE, ENV_MODEL_VERSION, ServingTarget
from airflow_provider_ragops.exceptions import TargetError

Json = dict[str, Any]


@dataclass(frozen=True)
class Strategy:
    """How many pods a rolling update may add, and how many it may take away before their successors serve."""

    surge: int | str = 1
    unavailable: int | str = 0


#: One new pod at a time and never one fewer serving. The chart's own: what else it found there would stop a
#: ``helm upgrade``, which applies server-side.
USUAL = Strategy(1, 0)
#: No room for one pod more: one goes before its successor comes.
MAKE_ROOM = Strategy(0, 1)
#: Every pod may go at once. Only on the way to "no version": nothing good is served then, and as no new pod ever
#: turns Ready, waiting for one would never end.
DRAIN = Strategy(1, "100%")


@dataclass(frozen=True)
class Change:
    """What one write sets. The record and the version always change together.

    :param record: the release record's text, stored in the Deployment's own annotations (never in the template:
        a new token alone must not restart pods).
    :param version: MODEL_VERSION for the template; ``None`` leaves the template as it is, ``""`` removes it.
    :param min_ready_seconds: at least this long between a pod's Ready and the next step, so that it can be asked.
    """

    record: str
    version: str | None = None
    min_ready_seconds: int = 5
    strategy: Strategy = USUAL


def apply(found: Json, change: Change, target: ServingTarget) -> Json:
    """The Deployment to write: ``found`` with the change, its resourceVersion kept for compare-and-swap."""
    body = copy.deepcopy(found)
    metadata = body["metadata"]
    metadata["annotations"] = {**(metadata.get("annotations") or {}), ANNOTATION_RELEASE: change.record}
    if change.version is not None:
        spec, strategy = body["spec"], change.strategy
        set_version(spec["template"], target, change.version)
        spec["minReadySeconds"] = max(int(spec.get("minReadySeconds") or 0), change.min_ready_seconds)
        rolling = {"maxSurge": strategy.surge, "maxUnavailable": strategy.unavailable}
        spec["strategy"] = {"type": "RollingUpdate", "rollingUpdate": rolling}
    return body


def strategy_of(found: Json) -> Strategy:
    """The one that the Deployment has now: an interrupted rollout goes on with it."""
    rolling = (found["spec"].get("strategy") or {}).get("rollingUpdate")
    return Strategy(rolling.get("maxSurge", 1), rolling.get("maxUnavailable", 0)) if rolling else USUAL


def gap(strategy: Strategy, desired: int) -> str:
    """What a rollout costs while it lasts; empty where every pod serves until its successor does."""
    if strategy != MAKE_ROOM:
        return ""
    serving = f"{desired - 1} of {desired} pods serve" if desired > 1 else "NOBODY serves"
    return f"there is no room for a pod more, so one goes before its successor comes: meanwhile {serving}"


def set_version(template: Json, target: ServingTarget, version: str) -> None:
    """Set MODEL_VERSION where it stands, so that an equal version leaves an equal template; ``""`` takes it away.

    :raises TargetError: when no container has the target's name.
    """
    container = _container(template, target)
    env = container.get("env") or []
    others = [variable for variable in env if variable["name"] != ENV_MODEL_VERSION]
    at = next((number for number, one in enumerate(env) if one["name"] == ENV_MODEL_VERSION), len(env))
    wanted = [{"name": ENV_MODEL_VERSION, "value": version}] if version else []
    container["env"] = [*others[:at], *wanted, *others[at:]]


def _container(template: Json, target: ServingTarget) -> Json:
    containers: list[Json] = template["spec"]["containers"]
    for container in containers:
        if container["name"] == target.container:
            return container
    raise TargetError(
        f"Deployment {target.slug}", expected=f"a container named {target.container!r}",
        seen=", ".join(container["name"] for container in containers),
        action="Set the target's container name to the one that serves the model.",
    )
