"""
What a person does to a serving target: release or roll back to a version, put it on hold, lift the hold.

Trigger it from its form; nothing else starts it. A version that the quality gate let pass is released at once; any
other one waits for an approval under *Required Actions*, with the gate's reasons beside it. A rollback without a
version goes to the recorded last good one. It quarantines what served, and puts the target on hold: automatic releases
stop until the hold is lifted. Each step waits for the target's lock, and its log says who holds it.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

# The DAG processor pre-imports only modules that are named in the DAG file itself: see the churn DAG.
from airflow.providers.cncf.kubernetes.operators.pod import KubernetesPodOperator  # noqa: F401
from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import DAG, Param
from targets import CHOSEN, CHOSEN_REDIS, TARGETS

from airflow_provider_ragops.notifications.alert import AlertNotifier
from airflow_provider_ragops.operators.plan import ReleasePlanOperator
from airflow_provider_ragops.operators.release import ModelReleaseOperator
from airflow_provider_ragops.operators.rollback import ModelHoldOperator, ModelRollbackOperator
from airflow_provider_ragops.release.plan import Action, Step

REASON = "{{ params.reason }}"
VERSION = "{{ params.version or '' }}"

# No defaults: whoever changes what users get says what, where and why.
PARAMS = {
    "target": Param(
        type="string", enum=list(TARGETS), title="Serving target", description="Where the model is served.",
    ),
    "action": Param(
        type="string", enum=list(Action), title="Action",
        description="'release' moves to the version below. 'roll back' goes back to it, quarantines what serves now "
        "and sets a hold. 'hold' stops automatic releases; a person may still release. 'lift the hold' lets "
        "them go on.",
    ),
    "version": Param(
        None, type=["null", "integer"], minimum=1, maximum=2**31 - 1, title="Model version",
        description="Its number in MLflow: needed with 'release'. Empty with 'roll back': the recorded last good "
        "version. Leave it empty with 'hold' and 'lift the hold'.",
    ),
    "reason": Param(
        type="string", minLength=10, maxLength=500, pattern=r"\S", title="Reason",
        description="Why, for the ledger, the hold and the next person on call: at least 10 characters. With 'lift the "
        "hold' it stays with this run.",
    ),
}

with DAG(
    dag_id="model_release",
    description="By hand: release or roll back a version, hold, lift the hold",
    doc_md=__doc__,
    schedule=None,
    start_date=datetime(2026, 1, 1, tzinfo=timezone.utc),
    catchup=False,
    tags=["mlops", "release"],
    params=PARAMS,
    user_defined_macros={"targets": TARGETS},
    default_args={
        "owner": "mlops-platform",
        "retries": 2,
        "retry_delay": timedelta(minutes=1),
        # Longer than the waits inside: for the lock, a rollout and its undo.
        "execution_timeout": timedelta(hours=2),
        "on_failure_callback": AlertNotifier(),
    },
) as dag:
    plan = ReleasePlanOperator(
        task_id="plan", target=CHOSEN, action="{{ params.action }}", version=VERSION, reason=REASON,
        execution_timeout=timedelta(minutes=10),
        follow={
            Step.RELEASE: "release", Step.APPROVE: "approve", Step.ROLL_BACK: "roll_back", Step.HOLD: "hold",
            Step.LIFT: "lift_hold",
        },
    )
    approve = ApprovalOperator(
        task_id="approve", subject="{{ params.action }} version {{ params.version }} at {{ params.target }}?",
        body="{{ ti.xcom_pull('plan', key='question') }}", response_timeout=timedelta(hours=12),
        # It only asks, then waits outside of a worker; another limit would count the person's time.
        execution_timeout=None, retries=0,
    )
    release = ModelReleaseOperator(
        task_id="release", target=CHOSEN, redis_conn_id=CHOSEN_REDIS, version=VERSION, reason=REASON, manual=True,
        rollback="{{ params.action == 'roll back' }}", approval_task_id="approve",
        # The approval is skipped where the gate said promote; where it was refused or failed, so is this.
        trigger_rule="none_failed_min_one_success",
    )
    roll_back = ModelRollbackOperator(task_id="roll_back", target=CHOSEN, redis_conn_id=CHOSEN_REDIS, reason=REASON)
    hold = ModelHoldOperator(task_id="hold", target=CHOSEN, reason=REASON)
    lift_hold = ModelHoldOperator(task_id="lift_hold", target=CHOSEN, reason="")

    plan >> [approve, release, roll_back, hold, lift_hold]
    approve >> release
