"""Parse the DAG files as the DAG processor does: in a process of its own, with nothing but the deploy's environment."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from functools import cache
from typing import Any

from demo.paths import ROOT

DAGS = ROOT / "dags"
FILES = (
    "model_release", "model_reconcile", "model_guardrail", "churn/daily_churn_model_retraining",
    "rag/rag_retriever_retraining",
)  # fmt: skip
HEAVY = ("duckdb", "fastapi", "feast", "mlflow", "pandas", "pandera", "polars", "pyarrow", "redis", "torch")
#: A second target, all of it from the environment.
STAGING = {
    "namespace": "ml-staging", "model": "M", "allow_unavailable": True, "redis_conn_id": "redis_staging",
    "champion": "staging",
}  # fmt: skip

_SCRIPT = """
import importlib.util, json, sys
from airflow.serialization.serialized_objects import DagSerialization
sys.path.insert(0, sys.argv[1])

def load(name):
    spec = importlib.util.spec_from_file_location("parsed", f"{sys.argv[1]}/{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.dag

def rendered(task, value):
    macros, names = task.dag.user_defined_macros or {}, ("churn", "rag", "staging")
    return {name: task.render_template(value, {"params": {"target": name}, **macros})
            for name in names if "targets" in macros and name in macros["targets"]}

def told(dag):
    return {
        "timetable": type(dag.timetable).__name__, "cron": getattr(dag.timetable, "expression", ""),
        "schedulable": dag.timetable.can_be_scheduled, "catchup": dag.catchup,
        "max_active_runs": dag.max_active_runs,
        "params": {name: {**param.schema, "description": param.description, "value": param.value}
                   for name in dag.params for param in [dag.params.get_param(name)]},
        "serialized": DagSerialization.to_dict(dag),
        "tasks": {t.task_id: {
            "after": sorted(t.downstream_task_ids), "retries": t.retries, "owner": t.owner,
            "callback": [type(each).__name__ for each in t.on_failure_callback or []],
            "rule": str(t.trigger_rule.value), "delay": t.retry_delay.total_seconds(),
            "limit": t.execution_timeout and t.execution_timeout.total_seconds(),
            "fields": {name: getattr(t, name) for name in t.template_fields},
            "chosen": {name: rendered(t, getattr(t, name)) for name in ("target", "redis_conn_id") if hasattr(t, name)},
            **{name: getattr(t, name) for name in (
                "follow", "approval_task_id", "rollout_timeout", "blessing_timeout", "response_timeout",
            ) if hasattr(t, name)},
        } for t in dag.tasks},
    }

dags = {name: told(load(name)) for name in sys.argv[2:]}
print(json.dumps({"modules": sorted(sys.modules), **dags}, default=str))
"""


@cache
def parsed(reconcile: str = "on", rag: str = "on") -> dict[str, Any]:
    """What each file's ``dag`` says, where a staging tier is added to the targets of the examples."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("RAGOPS_")}
    settings = {
        "RAGOPS_RECONCILE": reconcile, "RAGOPS_RAG": rag, "RAGOPS_RAG_REDIS_CONN": "redis_rag",
        "RAGOPS_RAG_SERVING_NAMESPACE": "ml-rag", "RAGOPS_REDIS_CONN": "redis_serving",
        "RAGOPS_SERVING_NAMESPACE": "elsewhere",
        "RAGOPS_TARGETS": json.dumps({"staging": STAGING}),
    }  # fmt: skip
    command = [sys.executable, "-c", textwrap.dedent(_SCRIPT), str(DAGS), *FILES]
    done = subprocess.run(
        command, env=inherited | settings, capture_output=True, text=True, timeout=100, check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found
