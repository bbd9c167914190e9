"""Many runs want one target at the same time: they release one after the other, or not at all."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta, timezone
from itertools import pairwise

import pytest

from tests.system.conftest import DRILL
from tests.system.drill import Drill, eventually
from tests.system.serial import Witness, faults

pytestmark = [pytest.mark.cluster, pytest.mark.images, pytest.mark.timeout(300)]


def scheduled_run(drill: Drill) -> str:
    """The run that Airflow starts by itself as soon as the DAG may run."""
    drill.loop.api.unpause("drill_daily")
    found: dict[str, str] = eventually(lambda: next(iter(runs(drill, "scheduled")), None), "a scheduled run", 60)
    return found["dag_run_id"]


def runs(drill: Drill, kind: str) -> list[dict[str, str]]:
    path = f"/dags/drill_daily/dagRuns?limit=10&run_type={kind}"
    found: list[dict[str, str]] = drill.call("GET", path)["dag_runs"]
    return found


def backfill_run(drill: Drill) -> str:
    day = datetime.now(timezone.utc).replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=30)
    drill.call("POST", "/backfills", {
        "dag_id": "drill_daily", "from_date": day.isoformat(), "to_date": (day + timedelta(hours=23)).isoformat(),
        "reprocess_behavior": "completed", "max_active_runs": 1,
    })
    return str(eventually(lambda: runs(drill, "backfill"), "a backfill's run", 60)[0]["dag_run_id"])


def test_contenders_release_one_after_the_other(drill: Drill, evidence: Counter[str]) -> None:
    """A2, A8: schedule, form, a second DAG and a backfill start together.

    Strictly serial by the API server's own order of writes; waiters say who holds the lock; older data and the
    backfill release nothing; whoever runs out of time while waiting leaves no trace.
    """
    scheduled, chosen = drill.register(), drill.register()
    older = drill.register(partition="2025-06-01")
    drill.schedule(scheduled)
    with Witness(DRILL, drill.tier.kube) as witness:
        with drill.locked("nobody starts yet"):
            waiting = {
                "drill_daily": scheduled_run(drill),
                "model_release": drill.trigger("model_release", {
                    "target": "drill", "action": "release", "version": int(chosen), "reason": "a person chose it",
                }),
                "drill_other": drill.release(older),
            }
            given_up = drill.trigger("drill_impatient", {"version": scheduled})
            backfill = backfill_run(drill)
            for dag, run_id in waiting.items():
                told = lambda dag=dag, run_id=run_id: (  # noqa: E731
                    drill.state(dag, run_id) == "running" and "waiting: held by 'the drill" in drill.log(dag, run_id)
                )
                eventually(told, f"{dag} to wait and to say for whom", 90, pause=1)
            assert drill.ended("drill_impatient", given_up) == "failed"
            assert drill.ended("drill_daily", backfill) == "success"
            assert drill.state("drill_daily", backfill) == "skipped"
        ends = {dag: drill.ended(dag, run_id) for dag, run_id in waiting.items()}
    assert faults(witness.events()) == []
    holders = [holder.removeprefix("admin in ").split("/")[:2] for holder in witness.holders()]
    assert holders[0][0] == "the drill"
    assert sorted(holders[1:]) == sorted(map(list, waiting.items()))
    evidence["schedules"] += 1
    assert (ends["model_release"], ends["drill_other"]) == ("success", "failed")
    assert "2025-06-01 is older than" in drill.log("drill_other", waiting["drill_other"])
    # The gate judged the scheduled version against what served before; it may only be the first to release.
    first = drill.record["from_version"] == scheduled
    assert ends["drill_daily"] == ("success" if first else "failed")
    assert first or f"but {chosen} is serving now" in drill.log("drill_daily", waiting["drill_daily"])
    assert "AirflowTaskTimeout" in drill.log("drill_impatient", given_up)
    drill.assert_serves(chosen)
    entries = drill.ledger.history(DRILL.slug)
    assert not [entry for entry in entries if entry.to_version == older or backfill in entry.actor]
    closed = sorted((entry.opened_at, entry.closed_at) for entry in entries if entry.closed_at)
    assert all(end <= begin for (_, end), (begin, _) in pairwise(closed))
