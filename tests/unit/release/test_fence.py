"""The fence: tokens only grow, whatever happened to the lock or the record; a record that is not ours is left alone."""

from __future__ import annotations

import json

import pytest

from airflow_provider_ragops.contract import ANNOTATION_RELEASE
from airflow_provider_ragops.exceptions import TargetError
from tests.unit.release.world import TARGET, World, make_world_serving


def make_world_of_many_holders() -> World:
    world = make_world_serving("1")
    for _ in range(3):
        world.release("1")
    return world


def annotations(world: World) -> dict[str, str]:
    found: dict[str, str] = world.tier.deployment["metadata"]["annotations"]
    return found


def test_token_outgrows_a_lock_that_was_deleted() -> None:
    """L5: a lock that counts from one again does not bring an old token back."""
    world = make_world_of_many_holders()
    newest = world.record["token"]
    del world.tier.objects[f"/api/v1/namespaces/{TARGET.namespace}/configmaps/{TARGET.lock_name}"]
    world.release("1")
    assert newest < world.record["token"] <= world.lock["transitions"]


def test_token_outgrows_an_undo_by_hand() -> None:
    """L5: `kubectl rollout undo` brings an old record back; the next token is above all that ever were."""
    world = make_world_serving("1")
    old = annotations(world)[ANNOTATION_RELEASE]
    for _ in range(3):
        world.release("1")
    newest = world.record["token"]
    annotations(world)[ANNOTATION_RELEASE] = old
    world.release("1")
    assert world.record["token"] > newest


@pytest.mark.parametrize(("change", "seen"), [({"schema": 2}, "schema 2"), ({"model": "N"}, "model 'N'")])
def test_record_that_is_not_ours_is_left_alone(change: dict[str, object], seen: str) -> None:
    """A record of a later schema, or of another model, stops every release and is not written over."""
    world = make_world_serving("1")
    foreign = annotations(world)[ANNOTATION_RELEASE] = json.dumps(world.record | change)
    with pytest.raises(TargetError, match=f"saw {seen}"):
        world.release("1")
    assert annotations(world)[ANNOTATION_RELEASE] == foreign
