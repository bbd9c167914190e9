"""DAGs that only release hand-registered versions, with short durations: for the tests of many runs on one target.

``drill_daily`` is scheduled, and can be backfilled; ``drill_other`` is a second DAG on the same target;
``drill_impatient`` gives up while it waits for the lock.
"""

from __future__ import annotations

import json
import os
from datetime import datetime, timedelta, timezone
from functools import cached_property

from airflow.providers.cncf.kubernetes.operators.pod import KubernetesPodOperator  # noqa: F401
from airflow.sdk import DAG, CronPartitionTimetable, Param

from airflow_provider_ragops.contract import ServingTarget
from airflow_provider_ragops.hooks.serving import ServingHook
from airflow_provider_ragops.locking.times import LockTimes
from airflow_provider_ragops.operators.release import ModelReleaseOperator

TARGET = ServingTarget.of(json.loads(os.environ["RAGOPS_TARGETS"])["drill"])
TIMES = LockTimes(lease=10, renew_deadline=8, retry=0.5, wait=150)


class BriefReleaseOperator(ModelReleaseOperator):
    """One whose requests are given up soon, as such a short lease needs."""

    @cached_property
    def serving(self) -> ServingHook:
        return ServingHook(self.kubernetes_conn_id, request_timeout=TIMES.renew_deadline / 2)


def make(dag_id: str, schedule: CronPartitionTimetable | None, **task: object) -> DAG:
    with DAG(
        dag_id, schedule=schedule, start_date=datetime(2026, 1, 1, tzinfo=timezone.utc), catchup=False,
        max_active_runs=4, params={"version": Param("", type="string")},
    ) as dag:  # fmt: skip
        BriefReleaseOperator(
            **{
                "task_id": "release", "target": TARGET, "lock_times": TIMES, "rollout_timeout": 60.0,
                "blessing_timeout": None, "retries": 3, "retry_delay": timedelta(seconds=1),
                # A scheduled run has no form: its version is a Variable.
                "version": "{{ params.version or var.value.drill_version }}",
            } | task
        )
    return dag


DAILY = CronPartitionTimetable(os.environ["DRILL_SCHEDULE"], timezone="UTC", run_offset=-1, key_format="%Y-%m-%d")
daily = make("drill_daily", DAILY)
other = make("drill_other", None)
impatient = make("drill_impatient", None, execution_timeout=timedelta(seconds=4), retries=0)
