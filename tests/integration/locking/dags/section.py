"""A section over three tasks whose middle fails; what it found goes to a file. The namespace comes from the test."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from airflow.sdk import DAG, task

from airflow_provider_ragops.hooks.serving import ServingHook
from airflow_provider_ragops.operators.lock import LockAcquireOperator, LockReleaseOperator

with DAG("section", schedule=None):
    acquire = LockAcquireOperator(
        task_id="acquire", namespace=os.environ.get("SECTION_NAMESPACE", "ns"), lock_name="the-lock",
        lease_seconds=600, purpose="{{ run_id }}'s section",
    )
    release = LockReleaseOperator(task_id="release", lock=acquire.output)

    @task
    def middle(lock: dict[str, Any]) -> None:
        path = f"/api/v1/namespaces/{lock['namespace']}/configmaps/{lock['lock_name']}"
        found = ServingHook().kube.get(path)
        Path(os.environ["SECTION_FOUND"]).write_text(json.dumps({"lock": lock, "object": found}))
        raise RuntimeError("the section fails")

    middle(acquire.output) >> release.as_teardown(setups=acquire)
