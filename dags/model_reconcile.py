"""
Look after every serving target between releases, every 15 minutes.

A whole target costs a few reads. What a dead or paused release left behind is repaired under the target's lock; where
a release is running, nothing is done; what a person changed is reported, and the task fails, so that its callback
tells someone. What each finding means: `docs/on-call.md`.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

# The DAG processor pre-imports only modules that are named in the DAG file itself: see the churn DAG.
from airflow.providers.cncf.kubernetes.operators.pod import KubernetesPodOperator  # noqa: F401
from airflow.sdk import DAG, Param
from targets import RECONCILED, TARGETS

from airflow_provider_ragops.notifications.alert import AlertNotifier
from airflow_provider_ragops.operators.reconcile import ModelReconcileOperator

PARAMS = {
    "repair": Param(
        True, type="boolean", title="Repair",
        description="Put right what a dead release left behind. Off: only say what is not whole.",
    ),
}

with DAG(
    dag_id="model_reconcile",
    description="Repair what dead releases left, report what people changed",
    doc_md=__doc__,
    schedule="*/15 * * * *" if RECONCILED else None,
    start_date=datetime(2026, 1, 1, tzinfo=timezone.utc),
    catchup=False,
    max_active_runs=1,
    tags=["mlops", "release"],
    params=PARAMS,
    default_args={
        "owner": "mlops-platform",
        "retries": 1,
        "retry_delay": timedelta(minutes=1),
        # Longer than a dead holder's lease, an undo, and waiting for pods that come late.
        "execution_timeout": timedelta(hours=1),
        "on_failure_callback": AlertNotifier(),
    },
) as dag:
    for name, target in TARGETS.items():
        ModelReconcileOperator(
            task_id=f"reconcile_{name}", target=target.serving, redis_conn_id=target.redis_conn_id,
            repair="{{ params.repair }}",
        )
