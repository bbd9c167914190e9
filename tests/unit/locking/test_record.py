"""The record and the object that carries it."""

from __future__ import annotations

import json

import pytest

from airflow_provider_ragops.exceptions import ConflictError, LockRecordError
from airflow_provider_ragops.locking.configmap import ConfigMapStore
from airflow_provider_ragops.locking.record import NEVER_HELD, load
from tests.unit.locking.locks import PATH, World

WHOLE = json.loads(NEVER_HELD.taken_by("a", 15, "x", "now").dump())


@pytest.mark.parametrize("text", [
    "", "{}", "null", "[]", "3", "not JSON", '{"schema": 2}', '{"holder": 3, "transitions": 1}',
    *(json.dumps(WHOLE | change) for change in (
        {"schema": 2}, {"lease_seconds": 0}, {"lease_seconds": 1.5}, {"lease_seconds": "15"}, {"transitions": -1},
        {"transitions": True}, {"holder": None}, {"purpose": 1}, {"priority": 7},
    )),
])  # fmt: skip
def test_foreign_content_is_never_stolen(text: str) -> None:
    """L11: what is no lock record of our schema, an unknown field included, is refused with its text, and stays."""
    world = World()
    world.kube.put(PATH, {"metadata": {"name": "the-lock"}, "data": {"record": text}})
    with pytest.raises(LockRecordError, match="ns/the-lock"):
        world.lock().acquire()
    assert world.body["data"] == {"record": text}


def test_foreign_data_and_annotations_survive() -> None:
    """L11: other keys, labels and annotations of the object are kept through a whole hold."""
    world = World()
    metadata = {"name": "the-lock", "annotations": {"a": "b"}, "labels": {"c": "d"}, "finalizers": ["x/y"]}
    world.kube.put(PATH, {"metadata": metadata, "data": {"other": "x"}, "binaryData": {"z": "AA=="}})
    lock = world.lock()
    lock.acquire()
    lock.renew()
    lock.release()
    kept = world.body
    assert {key: kept["metadata"][key] for key in metadata} == metadata
    assert kept["data"]["other"] == "x"
    assert kept["binaryData"] == {"z": "AA=="}


def test_store_writes_only_over_what_was_read() -> None:
    """L2, L10: what was written since it was read, or made meanwhile, is a lost race and stays."""
    world = World()
    store = ConfigMapStore(world.kube, "ns", "the-lock")  # type: ignore[arg-type]
    world.lock("first").acquire()
    seen = store.read()
    with pytest.raises(ConflictError):
        store.write(NEVER_HELD, None)
    assert seen is not None
    store.write(seen.record.released(), seen)
    with pytest.raises(ConflictError):
        store.write(seen.record, seen)
    assert world.record.free


def test_object_without_a_record_is_free() -> None:
    """L11: an empty object, made by a chart say, is a lock that nobody ever held."""
    world = World()
    world.kube.put(PATH, {"metadata": {"name": "the-lock"}})
    assert world.lock().acquire() == 1


def test_lock_is_owned_by_nobody() -> None:
    """L5: no owner, whose deletion would reset the token, and no finalizer, which would hang the namespace's end."""
    world = World()
    world.lock().acquire()
    assert set(world.body["metadata"]) == {"name", "namespace", "resourceVersion"}


def test_record_is_what_people_read() -> None:
    """The record says who, for what, since when, for how long, and survives a round trip."""
    record = NEVER_HELD.taken_by("dag/run/task/-1/try 1/uuid", 15, "release M 3", "2026-01-01T12:00:00+00:00")
    assert load(record.dump(), "lock") == record
    assert record.describe() == (
        "'dag/run/task/-1/try 1/uuid' since 2026-01-01T12:00:00+00:00, renewed 2026-01-01T12:00:00+00:00,"
        " for 'release M 3'"
    )
