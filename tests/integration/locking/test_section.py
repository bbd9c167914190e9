"""A critical section over several tasks, run by Airflow with a lock on a real API server."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from demo.paths import ROOT

from tests.integration.locking.conftest import Place

pytestmark = pytest.mark.cluster


def test_lock_is_held_in_the_middle_and_freed_after_its_failure(
    place: Place, airflow_db: Path, tmp_path: Path,
) -> None:
    """The middle task finds the lock held by the setup's try; it fails, the teardown still frees the lock, and the run
    is failed."""
    connection = {"conn_type": "kubernetes", "extra": {"kube_config_path": str(place.kubeconfig)}}
    found = tmp_path / "found.json"
    env = os.environ | {
        "AIRFLOW_HOME": str(airflow_db), "AIRFLOW__CORE__DAGS_FOLDER": str(Path(__file__).with_name("dags")),
        "AIRFLOW_CONN_KUBERNETES_DEFAULT": json.dumps(connection), "SECTION_NAMESPACE": place.namespace,
        "SECTION_FOUND": str(found), "PYTHONPATH": str(ROOT),
    }
    airflow = Path(sys.executable).with_name("airflow")
    done = subprocess.run(
        [airflow, "dags", "test", "section"], env=env, capture_output=True, text=True, timeout=100, check=False,
    )
    log = done.stdout + done.stderr
    assert found.exists(), log[-3000:]
    told = json.loads(found.read_text())
    record = json.loads(told["object"]["data"]["record"])
    assert re.fullmatch(r"section/manual__[^/]+/acquire/-1/try 1/[-0-9a-f]{36}", record["holder"])
    assert told["lock"]["holder"] == record["holder"]
    assert record["purpose"].startswith("manual__")
    assert (record["lease_seconds"], record["transitions"]) == (600, 1)
    assert "state=failed" in log, log[-3000:]
    assert place.record().free, log[-3000:]
    assert place.record().transitions == 1
