"""What lives when a pod becomes ready is left alone by garbage collections."""

from __future__ import annotations

import gc
import subprocess
import sys

from airflow_provider_ragops.workloads.serving.loading import make_ready

from .test_loading import DOWN, a_state, loading

SETTLES = """
import gc, weakref
from airflow_provider_ragops.workloads.serving.memory import settled
class Node: ...
gc.disable()
garbage, living = Node(), Node()
garbage.itself, gone = garbage, weakref.ref(garbage)
del garbage
settled()
assert gone() is None, "garbage was kept for ever"
assert gc.get_freeze_count() > 0
assert not any(each is living for each in gc.get_objects()), "a collection would walk it"
"""


def test_what_lives_is_out_of_every_later_collection_and_no_garbage_is() -> None:
    """In a process of its own: what is frozen stays so."""
    done = subprocess.run([sys.executable, "-c", SETTLES], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_a_pod_settles_once_when_loaded_and_before_it_is_ready() -> None:
    """Two tries to load: one call, after the cache and the checks, when no caller waits yet."""
    state, seen = a_state(), []

    def attach(_: object) -> dict[str, str]:
        seen.append("attached")
        return {}

    make_ready(state, loading(DOWN, "model"), lambda _: False, attach, lambda: seen.append(state.health.status))
    assert seen == ["attached", "loading"]
    assert state.health.ready
    assert gc.isenabled()
