"""``python -m airflow_provider_ragops.workloads.rag.training``: see ``--help``."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from airflow_provider_ragops.workloads import process
from airflow_provider_ragops.workloads.environment import WorkloadEnvironment
from airflow_provider_ragops.workloads.rag.training.parameters import DIMENSIONS, RetrieverParameters
from airflow_provider_ragops.workloads.rag.training.procedure import make
from airflow_provider_ragops.workloads.training import arguments
from airflow_provider_ragops.workloads.training.procedure import train


def parse(argv: Sequence[str] | None = None) -> arguments.TrainingArguments:
    """Read the command line; argparse prints what is wrong and exits with 2."""
    parser = arguments.parser("airflow_provider_ragops.workloads.rag.training")
    parser.add_argument("--dimension", type=int, choices=DIMENSIONS, required=True, help="numbers of an embedding")
    given = parser.parse_args(argv)
    return arguments.of(given, RetrieverParameters.parse(vars(given)))


def main() -> int:
    given = parse()
    return process.exit_code("training", lambda check: train(given, WorkloadEnvironment.read(os.environ), check, make))


if __name__ == "__main__":
    sys.exit(main())
