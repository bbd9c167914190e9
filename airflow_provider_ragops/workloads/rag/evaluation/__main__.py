"""``python -m airflow_provider_ragops.workloads.rag.evaluation``: see ``--help``."""

from __future__ import annotations

import os
import sys

from airflow_provider_ragops.workloads import process
from airflow_provider_ragops.workloads.environment import WorkloadEnvironment
from airflow_provider_ragops.workloads.evaluation import arguments
from airflow_provider_ragops.workloads.evaluation.procedure import evaluate
from airflow_provider_ragops.workloads.rag.evaluation.measurement import Retrieval


def main() -> int:
    given = arguments.parse(program="airflow_provider_ragops.workloads.rag.evaluation")
    return process.exit_code(
        "evaluation", lambda check: evaluate(given, WorkloadEnvironment.read(os.environ), check, Retrieval())
    )


if __name__ == "__main__":
    sys.exit(main())
