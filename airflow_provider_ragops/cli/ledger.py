"""``airflow ragops served`` and ``airflow ragops history``: the ledger on a terminal."""

from __future__ import annotations

import json
import os
import sys
from argparse import Namespace
from collections.abc import Callable
from functools import wraps

from airflow.sdk.exceptions import AirflowNotFoundException
from airflow.utils.cli import suppress_logs_and_warning

from airflow_provider_ragops.contract import Partition
from airflow_provider_ragops.exceptions import ConfigurationError, RagopsError
from airflow_provider_ragops.hooks.mlflow import MlflowHook
from airflow_provider_ragops.promotion import history as told
from airflow_provider_ragops.promotion.table import Row, as_table

Rows = list[Row]


def _command(nothing: str) -> Callable[[Callable[[Namespace], Rows]], Callable[[Namespace], None]]:
    """Print what was found, or the words for nothing; an error is one line on stderr and exit code 1."""

    def decorated(find: Callable[[Namespace], Rows]) -> Callable[[Namespace], None]:
        @suppress_logs_and_warning  # or libraries' warnings would stand before the JSON
        @wraps(find)
        def command(given: Namespace) -> None:
            # As Airflow's own commands do it: otherwise connections in the metadata database are not found.
            os.environ["_AIRFLOW_PROCESS_CONTEXT"] = "server"
            try:
                rows = find(given)
            except (RagopsError, AirflowNotFoundException) as error:
                raise SystemExit(f"{type(error).__name__}: {error}") from error
            text = as_table(rows) or nothing.format(**vars(given))
            sys.stdout.write(f"{json.dumps(rows, indent=2) if given.output == 'json' else text}\n")

        return command

    return decorated


@_command("Nothing served {target} on {date}, as far as the ledger knows.")
def served(given: Namespace) -> Rows:
    day = Partition.parse(given.date)
    if len(list(day.days)) != 1:
        raise ConfigurationError(
            "--date", expected="one UTC day, YYYY-MM-DD", seen=repr(given.date), action="Ask for one day at a time.",
        )  # fmt: skip
    return told.served_rows(MlflowHook(given.conn_id).served_on(_slug(given), day.start.date()))


@_command("The ledger knows no release of {target}.")
def history(given: Namespace) -> Rows:
    return told.rows(MlflowHook(given.conn_id).ledger().history(_slug(given)))


def _slug(given: Namespace) -> str:
    """The name of a target in the forms is another one: an empty answer to it would look like an outage."""
    target = str(given.target)
    if target.count("/") != 1 or not all(target.split("/")):
        raise ConfigurationError(
            "--target", expected="NAMESPACE/DEPLOYMENT, such as ml-serving/mlflow-serve", seen=repr(target),
            action="dags/targets.py says which target of the forms that is.",
        )
    return target
