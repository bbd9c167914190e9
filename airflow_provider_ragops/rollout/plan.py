"""The change to a Deployment, as data: what is written in one replace. Pure."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

from airflow_provider_ragops.contract import ANNOTATION_RELEASE, ENV_MODEL_VERSION, ServingTarget
from airflow_provider_ragops.exceptions import TargetError

Json = dict[str, Any]


@dataclass(frozen=True)
class Change:
    """What one write sets. The record and the version always change together.

    :param record: the release record's text, stored in the Deployment's own annotations (never in the template:
        a new token alone must not restart pods).
    :param version: MODEL_VERSION for the template; ``None`` leaves the template as it is, ``""`` removes it.
    :param drain: let every pod go at once. Only on the way to "no version": nothing good is served then, and as no
        new pod ever turns Ready, waiting for one would never end.
    :param min_ready_seconds: at least this long between a pod's Ready and the next step, so that it can be asked.
    """

    record: str
    version: str | None = None
    drain: bool = False
    min_ready_seconds: int = 5


def apply(found: Json, change: Change, target: ServingTarget) -> Json:
    """The Deployment to write: ``found`` with the change, its resourceVersion kept for compare-and-swap."""
    body = copy.deepcopy(found)
    metadata = body["metadata"]
    metadata["annotations"] = {**(metadata.get("annotations") or {}), ANNOTATION_RELEASE: change.record}
    if change.version is not None:
        spec = body["spec"]
        container = _container(spec["template"], target)
        container["env"] = _with_version(container.get("env") or [], change.version)
        spec["minReadySeconds"] = max(int(spec.get("minReadySeconds", 0)), change.min_ready_seconds)
        # One new pod at a time and never one fewer serving.
        unavailable: int | str = "100%" if change.drain else 0
        spec["strategy"] = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": unavailable}}
    return body


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


def _with_version(env: list[Json], version: str) -> list[Json]:
    others = [variable for variable in env if variable["name"] != ENV_MODEL_VERSION]
    return [*others, {"name": ENV_MODEL_VERSION, "value": version}] if version else others
