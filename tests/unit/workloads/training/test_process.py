"""The training as its pod runs it: a process with an environment, an exit code and a log."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import Any

import pytest

from airflow_provider_ragops import contract
from airflow_provider_ragops.hooks.mlflow import MlflowHook
from tests.unit.workloads.training_sets import MODEL

Data = tuple[str, str]


def start(address: str, data: Data, *, epochs: int = 2, **changes: str) -> subprocess.Popen[str]:
    variables = os.environ | {
        contract.ENV_TRACKING_URI: address, contract.ENV_ATTEMPT: "attempt-1", contract.ENV_IMAGE: "training:1",
        "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0", "MLFLOW_HTTP_REQUEST_TIMEOUT": "5",
    }  # fmt: skip
    command = [
        sys.executable, "-m", "airflow_provider_ragops.workloads.training", "--model", MODEL, "--experiment", "churn",
        "--data", data[0], "--data-digest", data[1], "--partition", "2026-11-29", "--cutoff",
        "2026-08-31T00:00:00+00:00", "--epochs", str(epochs), "--batch-size", "64", "--learning-rate", "0.01",
        "--seed", "7",
    ]  # fmt: skip
    return subprocess.Popen(
        command, env=variables | changes, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )


def ended(process: subprocess.Popen[str]) -> tuple[int, list[str]]:
    output, _ = process.communicate(timeout=60)
    return process.returncode, output.strip().splitlines()


def test_unreachable_mlflow_is_named() -> None:
    """MLflow does not answer: exit code 1 (a retry may help) and a last line that names its address."""
    code, lines = ended(start("http://127.0.0.1:9", ("runs:/r/t.parquet", "d")))
    assert code == 1
    assert "training failed: UnreachableError: MLflow at http://127.0.0.1:9: expected an answer" in lines[-1]
    assert any(line.startswith("Traceback") for line in lines)


def test_refused_data_has_its_own_exit_code(store: MlflowHook, data: Data) -> None:
    """Data that a retry can't mend: the exit code that tells the operator so, and the reason in the last line."""
    code, lines = ended(start(store.tracking_uri, (data[0], "0123456789abcdef")))
    assert code == contract.EXIT_REFUSED
    assert f"DataError: training set {data[0]}: expected content with digest 0123456789abcdef" in lines[-1]


def test_missing_attempt_is_refused(store: MlflowHook, data: Data) -> None:
    """Without an attempt nothing could prove the result: refused before any work."""
    code, lines = ended(start(store.tracking_uri, data, **{contract.ENV_ATTEMPT: ""}))
    assert code == contract.EXIT_REFUSED
    assert f"environment variable {contract.ENV_ATTEMPT}: expected a value" in lines[-1]


def test_terminated_pod_leaves_a_failed_run(store: MlflowHook, data: Data) -> None:
    """K1: SIGTERM (a deleted pod) in the middle of training: the run is FAILED, no version, exit code 143."""
    process = start(store.tracking_uri, data, epochs=10_000)
    run = _first_epoch(store)
    process.send_signal(signal.SIGTERM)
    code, _ = ended(process)
    assert code == 128 + signal.SIGTERM
    assert store.run(run.info.run_id).info.status == "FAILED"
    assert store.registry().find(MODEL, {}) == []


def _first_epoch(store: MlflowHook) -> Any:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        run = store.find_run("churn", {contract.TAG_ATTEMPT: "attempt-1"})
        if run and "train_loss" in run.data.metrics:
            return run
        time.sleep(0.2)
    pytest.fail("no epoch was reported within 60 s")
