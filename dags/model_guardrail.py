"""
Look at every serving target's guardrails, every 15 minutes.

Traces of another version in the pods' logs, a new version that is much slower than what served before it, and more keys
in Redis than expected fail the task, so that its callback tells someone. Reads only, without the lock; what each
breach means: `docs/serving-tier.md`.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

# The DAG processor pre-imports only modules that are named in the DAG file itself: see the churn DAG.
from airflow.providers.cncf.kubernetes.operators.pod import KubernetesPodOperator  # noqa: F401
from airflow.sdk import DAG, Param
from targets import RECONCILED, TARGETS

from airflow_provider_ragops.notifications.alert import AlertNotifier
from airflow_provider_ragops.operators.guardrail import ModelGuardrailOperator

PARAMS = {
    "expected_keys": Param(
        None, type=["null", "integer"], minimum=1, title="Expected keys",
        description="Of one version in Redis; more is a breach. Empty: keys are counted and not judged.",
    ),
}

with DAG(
    dag_id="model_guardrail",
    description="Tell someone where versions mix, a new one is slow, or keys grow",
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
        "execution_timeout": timedelta(minutes=10),
        "on_failure_callback": AlertNotifier(),
    },
) as dag:
    for name, target in TARGETS.items():
        ModelGuardrailOperator(
            task_id=f"guardrail_{name}", target=target.serving, redis_conn_id=target.redis_conn_id,
            # A little more than the interval: a line that was written while the last run read is not lost.
            since=17 * 60, expected_keys="{{ params.expected_keys }}",
        )
