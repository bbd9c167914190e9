"""The serving targets of this deployment, by the names that people choose from. Cheap enough for every parse.

``RAGOPS_RAG`` switches the RAG example's on; ``RAGOPS_TARGETS`` adds some, such as a staging tier, without an edit
here (docs/settings.md).
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import Any

from churn import settings as churn
from rag import settings as rag

from airflow_provider_ragops.contract import ServingTarget
from airflow_provider_ragops.exceptions import ConfigurationError

#: Off where nothing is to be looked after by itself: a just-unpaused DAG starts a run at once.
RECONCILED = os.environ.get("RAGOPS_RECONCILE", "on") == "on"


@dataclass(frozen=True)
class NamedTarget:
    """A serving target and the Airflow connection of the Redis that its pods share; None for no clean-up."""

    serving: ServingTarget
    redis_conn_id: str | None = None


CHURN = NamedTarget(ServingTarget(churn.SERVING_NAMESPACE, churn.MODEL), churn.REDIS_CONN)
# The chart gives Deployment and container the same name.
RAG = NamedTarget(
    ServingTarget(
        rag.SERVING_NAMESPACE, rag.MODEL, deployment=rag.DEPLOYMENT, container=rag.DEPLOYMENT,
        redis_prefix=rag.REDIS_PREFIX,
    ),
    rag.REDIS_CONN,
)  # fmt: skip


def added(text: str) -> dict[str, NamedTarget]:
    """Read ``{"name": {"namespace": ..., "model": ..., "redis_conn_id": ..., ...}}``: fields of a ServingTarget."""
    try:
        found = {str(name): dict(fields) for name, fields in json.loads(text or "{}").items()}
    except (ValueError, TypeError, AttributeError) as error:
        raise ConfigurationError(
            "RAGOPS_TARGETS", expected="a JSON object of objects", seen=repr(text[:200]), action="Correct it.",
        ) from error
    return {name: _named(name, fields) for name, fields in found.items()}


def _named(name: str, fields: dict[str, Any]) -> NamedTarget:
    redis = fields.pop("redis_conn_id", None)
    try:
        return NamedTarget(ServingTarget.of(fields), redis)
    except ConfigurationError as error:
        raise ConfigurationError(
            f"RAGOPS_TARGETS, target {name!r}", expected=error.expected, seen=error.seen, action=error.action,
        ) from error


def distinct(named: dict[str, NamedTarget]) -> dict[str, NamedTarget]:
    """:raises ConfigurationError: when two names are one Deployment, or share an alias of one model."""
    seen: dict[str, str] = {}
    for name, target in named.items():
        serving = target.serving
        for owned in (serving.slug, f"{serving.model}@{serving.champion}", f"{serving.model}@{serving.challenger}"):
            if other := seen.get(owned):
                raise ConfigurationError(
                    f"serving target {name!r}", expected="a Deployment and aliases of its own",
                    seen=f"{owned}, which is {other!r}'s", action="Give it others.",
                )
            seen[owned] = name
    return named


SHIPPED = {"churn": CHURN, **({"rag": RAG} if rag.ENABLED else {})}
TARGETS = distinct({**SHIPPED, **added(os.environ.get("RAGOPS_TARGETS", ""))})

#: For a DAG whose form asks for the target by name (``user_defined_macros={"targets": TARGETS}``).
CHOSEN = {
    field: f"{{{{ targets[params.target].serving.{field} }}}}" for field in ServingTarget.__dataclass_fields__
}
CHOSEN_REDIS = "{{ targets[params.target].redis_conn_id or '' }}"
