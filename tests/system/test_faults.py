"""What is killed, stopped or taken away in mid-release is finished or taken back, and nothing goes on unseen."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter

import pytest

from tests.system.conftest import DRILL
from tests.system.drill import Drill, eventually
from tests.system.serial import Event, Witness, faults

pytestmark = [pytest.mark.cluster, pytest.mark.images, pytest.mark.timeout(300)]


def strike(drill: Drill, run_id: str, attempt: int, blow: signal.Signals) -> int:
    """Signal the process of a try of ``drill_other``; returns its pid."""

    def running() -> int | None:
        task = drill.task("drill_other", run_id)
        return task["pid"] if task["try_number"] == attempt and task["state"] == "running" else None

    pid = eventually(running, f"try {attempt} of {run_id} to run", 120, pause=0.2)
    os.kill(pid, blow)
    return pid


def of_attempt(events: list[Event], attempt: int) -> list[Event]:
    """The writes to the Deployment in the hold of one try."""
    found, holder = [], ""
    for event in events:
        holder = holder if event.holder is None else event.holder
        if event.holder is None and f"/try {attempt}" in holder:
            found.append(event)
    return found


def test_killed_tries_are_resumed(drill: Drill, evidence: Counter[str]) -> None:
    """A1, A5: SIGTERM, then SIGKILL, in mid-rollout: no try succeeds after its signal, the third one finishes.

    The stopped try frees the lock and writes nothing more; the killed one's lock is free after its lease.
    """
    before, version = drill.champion(), drill.register()
    drill.tier.hold_back(version)  # in mid-rollout until all blows have fallen
    with Witness(DRILL, drill.tier.kube) as witness:
        run_id = drill.release(version)
        drill.wait_for_phase("rolling", version)
        strike(drill, run_id, 1, signal.SIGTERM)
        eventually(lambda: drill.task("drill_other", run_id)["try_number"] == 2, "the second try", 120, pause=0.1)
        stopped = drill.record["token"]
        # Its own token shows that it has sealed the target, and so holds the lock.
        eventually(lambda: drill.record["token"] > stopped, "the second try to seal", 120, pause=0.1)
        assert drill.champion() == before
        strike(drill, run_id, 2, signal.SIGKILL)
        assert drill.record["phase"] == "rolling"
        drill.tier.let_on(version)
        assert drill.ended("drill_other", run_id) == "success"
    assert drill.task("drill_other", run_id)["try_number"] == 3
    path = f"/dags/drill_other/dagRuns/{run_id}/taskInstances/release/tries"
    tries = {one["try_number"]: one["state"] for one in drill.call("GET", path)["task_instances"]}
    assert (tries[1], tries[2], tries[3]) == ("failed", "failed", "success"), tries
    events = witness.events()
    assert faults(events) == []
    assert "told to stop" in drill.log("drill_other", run_id, attempt=1)
    # Seal, ledger and MODEL_VERSION; after the signal nothing.
    assert {event.body["phase"] for event in of_attempt(events, 1)} <= {"done", "undone", "rolling"}
    assert {event.body["phase"] for event in of_attempt(events, 2)} == {"rolling"}
    assert "waiting: held by" in drill.log("drill_other", run_id, attempt=3)
    drill.assert_serves(version)
    assert [entry.outcome for entry in drill.ledger.history(DRILL.slug) if entry.to_version == version] == ["released"]
    evidence["faults"] += 2


def test_release_marked_failed_is_taken_back_by_reconcile(drill: Drill, evidence: Counter[str]) -> None:
    """A6: a running release is marked failed in the UI: its process ends, the lock is free, reconcile undoes it."""
    before, version = drill.champion(), drill.register()
    drill.tier.hold_back(version)  # in mid-rollout until all blows have fallen
    with Witness(DRILL, drill.tier.kube) as witness:
        run_id = drill.release(version)
        drill.wait_for_phase("rolling", version)
        began = time.monotonic()
        drill.call("PATCH", f"/dags/drill_other/dagRuns/{run_id}/taskInstances/release", {"new_state": "failed"})

        def free() -> bool:
            stored = drill.store.read()
            return bool(stored and stored.record.free)

        def ended(run: str) -> bool:
            return drill.state("model_reconcile", run, "reconcile_drill") in ("success", "failed")

        eventually(free, "the lock to be free", 45, pause=0.2)
        evidence["seconds until a release marked failed freed the lock"] = round(time.monotonic() - began)
        assert drill.state("drill_other", run_id) == "failed"
        assert drill.record["phase"] == "rolling"
        try:
            drill.loop.api.unpause("model_reconcile")
            path = "/dags/model_reconcile/dagRuns?limit=10"
            found = eventually(lambda: drill.call("GET", path)["dag_runs"], "a run of the reconcile", 60)
            reconcile = str(found[0]["dag_run_id"])
            eventually(lambda: ended(reconcile), "the drill's reconcile", 120)
        finally:
            drill.call("PATCH", "/dags/model_reconcile", {"is_paused": True})
        assert drill.state("model_reconcile", reconcile, "reconcile_drill") == "success"
    assert faults(witness.events()) == []
    drill.assert_serves(before)
    assert drill.record["phase"] == "undone"
    # At a quarter past, the schedule adds a run of its own: either may have been the one that repaired.
    runs = [str(run["dag_run_id"]) for run in drill.call("GET", path)["dag_runs"]]
    logs = [drill.log("model_reconcile", run, "reconcile_drill") for run in runs if ended(run)]
    assert any(f"to {version} was interrupted" in log for log in logs)
    assert [entry.outcome for entry in drill.ledger.history(DRILL.slug) if entry.to_version == version] == ["undone"]
    evidence["faults"] += 1
