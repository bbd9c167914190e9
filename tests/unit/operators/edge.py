"""The edges of the operators on a serving target: Airflow's context above, a world in memory below."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_ragops.hooks.mlflow import MlflowHook
from airflow_provider_ragops.hooks.serving import ServingHook
from airflow_provider_ragops.operators import target
from airflow_provider_ragops.rollout.updater import Updater
from tests.unit.operators.pods import TaskInstance
from tests.unit.release.world import World

DETAILS = {"expected": "x", "seen": "y", "action": "z"}


def create_context(
    run_id: str = "run-1", *, try_number: int = 1, run_type: str = "manual", person: str | None = None, **xcoms: Any,
) -> Any:
    """What Airflow gives to ``execute``; ``xcoms`` by task id."""
    ti = TaskInstance()
    ti.dag_id, ti.run_id, ti.task_id, ti.try_number = "d", run_id, "release", try_number
    ti.xcom_pull = lambda task_ids: xcoms.get(task_ids)
    return {"ti": ti, "dag_run": SimpleNamespace(run_type=run_type, triggering_user_name=person)}


def connect(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the hooks lead to the world, and let time pass there alone."""
    tier, time = world.tier, world.tier.time
    monkeypatch.setattr(tier, "calls", Counter(), raising=False)
    monkeypatch.setattr(ServingHook, "kube", tier)
    monkeypatch.setattr(
        ServingHook, "updater", lambda _, target: Updater(tier, target, clock=time.clock, sleep=time.sleep),  # type: ignore[arg-type]
    )
    monkeypatch.setattr(MlflowHook, "registry", lambda _, **__: world.registry)
    monkeypatch.setattr(MlflowHook, "ledger", lambda _, **__: world.ledger)
    monkeypatch.setattr(MlflowHook, "run", lambda _, run_id: SimpleNamespace(info=SimpleNamespace(run_id=run_id)))
    monkeypatch.setattr(MlflowHook, "run_url", lambda _, run: f"page of {run.info.run_id}")
    monkeypatch.setattr(target, "TargetKeys", lambda *_: world)
