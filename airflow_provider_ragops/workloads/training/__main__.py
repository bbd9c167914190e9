"""``python -m airflow_provider_ragops.workloads.training``: see ``--help``."""

from __future__ import annotations

import os
import sys

from airflow_provider_ragops.workloads import process
from airflow_provider_ragops.workloads.environment import WorkloadEnvironment
from airflow_provider_ragops.workloads.training import arguments
from airflow_provider_ragops.workloads.training.procedure import train


def main() -> int:
    given = arguments.parse()
    return process.exit_code("training", lambda check: train(given, WorkloadEnvironment.read(os.environ), check))


if __name__ == "__main__":
    sys.exit(main())
