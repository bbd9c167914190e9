"""Who refers to which version: nothing that is referred to is ever cleaned up."""

from __future__ import annotations

import copy
import json
from typing import Any

from airflow_provider_ragops.contract import ANNOTATION_RELEASE
from airflow_provider_ragops.release.references import referrers
from tests.unit.release.world import World, make_world_serving

Json = dict[str, Any]


def refer(world: World) -> dict[str, str]:
    return world.under_lock(lambda session, token: referrers(session))


def show(world: World, kind: str, *more: Json) -> None:
    """The cluster lists more objects of a kind than the fake tier's own."""
    read = world.tier.list

    def look(path: str, *of: str) -> list[Json]:
        return [*read(path, *of), *(more if path.endswith(kind) else ())]

    world.tier.list = look  # type: ignore[method-assign]


def make_neighbour(world: World, name: str, **record: str) -> Json:
    other = copy.deepcopy(world.tier.deployment)
    other["metadata"] |= {"name": name, "annotations": {ANNOTATION_RELEASE: json.dumps(world.record | record)}}
    return other


def test_pod_that_still_lives_refers_to_its_version() -> None:
    """C5: a Terminating pod of an old version still uses its keys."""
    world = make_world_serving("1")
    old = world.tier._pod("0")
    old["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    show(world, "/pods", old)
    assert refer(world)["0"] == f"pod {old['metadata']['name']}"


def test_other_targets_of_the_model_refer_to_theirs() -> None:
    """C5: what any target of this model serves, or would go back to, is kept; other models' not."""
    world = make_world_serving("1")
    show(
        world, "/deployments", make_neighbour(world, "canary", to_version="5", last_good="4"),
        make_neighbour(world, "other", model="N", to_version="6"),
    )
    found = refer(world)
    assert found["5"] == "served by Deployment ml-serving/canary"
    assert found["4"] == "last good of Deployment ml-serving/canary"
    assert "6" not in found
