"""
Retrain the RAG retriever on each day's question-passage pairs, judge it against the champion, release it if no worse.

Runs daily at 03:00 UTC for the day before (where `RAGOPS_RAG` is on); by hand from the trigger form, where every knob
is a field, the dimension of the embeddings too; and as a backfill, which trains and evaluates but never releases. A
version of another dimension is released beside the old one like any other: everything that it keeps is its own.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

# The DAG processor pre-imports only modules that are named in the DAG file itself: see the churn DAG.
from airflow.providers.cncf.kubernetes.operators.pod import KubernetesPodOperator  # noqa: F401
from airflow.sdk import DAG, CronPartitionTimetable, Param
from rag import settings
from targets import RAG

from airflow_provider_ragops.notifications.alert import AlertNotifier
from airflow_provider_ragops.operators.alert import AlertOperator
from airflow_provider_ragops.operators.pair_set import PairSetBuildOperator
from airflow_provider_ragops.operators.partition import PartitionResolveOperator
from airflow_provider_ragops.operators.release import ModelReleaseOperator
from airflow_provider_ragops.operators.retriever import (
    RetrieverEvaluationPodOperator,
    RetrieverGateOperator,
    RetrieverTrainingPodOperator,
)
from airflow_provider_ragops.operators.validation import ContractValidateOperator
from airflow_provider_ragops.sensors.partition import PartitionSensor
from airflow_provider_ragops.workloads.rag.training.parameters import DIMENSIONS

PARTITION = "{{ ti.xcom_pull('partition')['key'] }}"
DATA = "{{ ti.xcom_pull('training_set')['uri'] }}"
DATA_DIGEST = "{{ ti.xcom_pull('training_set')['digest'] }}"
CUTOFF = "{{ ti.xcom_pull('training_set')['cutoff'] }}"
CANDIDATE = "{{ ti.xcom_pull('train')['version'] }}"
PODS = {
    "namespace": settings.TRAINING_NAMESPACE,
    "image": settings.TRAINING_IMAGE,
    "service_account_name": settings.SERVICE_ACCOUNT,
    "mlflow_secret": settings.MLFLOW_SECRET,
    "mlflow_tracking_uri": settings.POD_MLFLOW_URI,
}

PARAMS = {
    "partition": Param(
        None, type=["null", "string"], format="date", title="Partition",
        description="The UTC day to retrain for. Empty: the run's own day (scheduled and backfill runs).",
    ),
    "dimension": Param(
        512, type="integer", enum=list(DIMENSIONS), title="Dimension",
        description="How many numbers an embedding has. A version of another dimension may serve beside this one.",
    ),
    "epochs": Param(
        10, type="integer", minimum=1, maximum=500, title="Epochs", description="Passes over the training pairs.",
    ),
    "batch_size": Param(
        256, type="integer", minimum=2, maximum=65536, title="Batch size",
        description="Pairs in one gradient step: each passage is a negative of the other questions.",
    ),
    "learning_rate": Param(
        0.0003, type="number", exclusiveMinimum=0, maximum=1, title="Learning rate", description="Step size of Adam.",
    ),
    "seed": Param(
        7, type="integer", minimum=0, maximum=2**31 - 1, title="Seed",
        description="Same partition, data and seed give the same model.",
    ),
    "min_mrr": Param(
        0.5, type="number", minimum=0, maximum=1, title="Least mean reciprocal rank",
        description="The gate rejects a candidate below this on the held-out questions.",
    ),
    "min_recall_at_5": Param(
        0.6, type="number", minimum=0, maximum=1, title="Least recall at 5",
        description="The gate rejects a candidate that finds fewer passages among its first five.",
    ),
    "non_inferiority_margin": Param(
        0.02, type="number", minimum=0, maximum=0.2, title="Non-inferiority margin",
        description="How much mean reciprocal rank a candidate may lose against the champion, at 95 % confidence.",
    ),
    "slices": Param(
        "source", type=["null", "string"], title="Slices",
        description="Columns whose values are groups of questions in which both versions are compared as well: source, "
        "library. Empty: none.",
    ),
    "max_slice_loss": Param(
        0.1, type="number", minimum=0, maximum=1, title="Largest loss in a slice",
        description="The gate rejects a candidate that surely loses more of it than this in one group; 1: never.",
    ),
    "min_slice_rows": Param(
        20, type="integer", minimum=20, maximum=1_000_000, title="Least rows of a slice",
        description="A group with fewer held-out questions is shown and decides nothing.",
    ),
    "evaluate_only": Param(
        False, type="boolean", title="Evaluate only", description="Train and judge, but never release.",
    ),
}

with DAG(
    dag_id="rag_retriever_retraining",
    description="Wait, validate, train a retriever, judge, release",
    doc_md=__doc__,
    # Partitioned by the day before the run: a plain cron schedule would give an empty data interval.
    schedule=CronPartitionTimetable("0 3 * * *", timezone="UTC", run_offset=-1, key_format="%Y-%m-%d")
    if settings.ENABLED else None,
    start_date=datetime(2026, 1, 1, tzinfo=timezone.utc),
    catchup=False,
    max_active_runs=1,
    tags=["mlops", "rag", "gpu"],
    params=PARAMS,
    default_args={
        "owner": "mlops-platform",
        "retries": 2,
        "retry_delay": timedelta(minutes=1),
        # Longer than the waits inside: of a pod for its node and for its end, of a release for its lock and rollouts.
        "execution_timeout": timedelta(hours=2),
        "on_failure_callback": AlertNotifier(),
    },
) as dag:
    partition = PartitionResolveOperator(task_id="partition")
    wait = PartitionSensor(
        task_id="wait_for_partition", location=settings.DATA_LOCATION, partition=PARTITION,
        poke_interval=60, timeout=6 * 3600, execution_timeout=timedelta(hours=7),
    )
    validate = ContractValidateOperator(
        task_id="validate_contract", schema="rag.contract:pairs", location=settings.DATA_LOCATION,
        partition=PARTITION, experiment=settings.EXPERIMENT,
    )
    training_set = PairSetBuildOperator(
        task_id="training_set", model=settings.MODEL, location=settings.DATA_LOCATION, partition=PARTITION,
        experiment=settings.EXPERIMENT,
    )
    train = RetrieverTrainingPodOperator(
        task_id="train", name="rag-training", execution_timeout=timedelta(hours=7), **PODS, model=settings.MODEL,
        experiment=settings.EXPERIMENT, data_uri=DATA, data_digest=DATA_DIGEST, partition=PARTITION, cutoff=CUTOFF,
        dimension="{{ params.dimension }}", epochs="{{ params.epochs }}", batch_size="{{ params.batch_size }}",
        learning_rate="{{ params.learning_rate }}", seed="{{ params.seed }}", gpus=settings.GPUS,
    )
    evaluate = RetrieverEvaluationPodOperator(
        task_id="evaluate", name="rag-evaluation", **PODS, model=settings.MODEL, candidate=CANDIDATE,
        data_uri=DATA, data_digest=DATA_DIGEST, partition=PARTITION, slices="{{ params.slices or '' }}",
    )
    gate = RetrieverGateOperator(
        task_id="gate", model=settings.MODEL, candidate=CANDIDATE,
        champion="{{ ti.xcom_pull('evaluate')['champion'] or 'none' }}",
        evaluation_run_id="{{ ti.xcom_pull('evaluate')['run_id'] }}", min_mrr="{{ params.min_mrr }}",
        min_recall_at_5="{{ params.min_recall_at_5 }}", non_inferiority_margin="{{ params.non_inferiority_margin }}",
        max_slice_loss="{{ params.max_slice_loss }}", min_slice_rows="{{ params.min_slice_rows }}",
        evaluate_only="{{ params.evaluate_only }}", target=RAG.serving, follow_promote="release",
        follow_reject="alert",
    )
    release = ModelReleaseOperator(
        task_id="release", target=RAG.serving, version=CANDIDATE, redis_conn_id=RAG.redis_conn_id,
    )
    alert = AlertOperator(task_id="alert")

    partition >> wait >> validate >> training_set >> train >> evaluate >> gate >> [release, alert]
