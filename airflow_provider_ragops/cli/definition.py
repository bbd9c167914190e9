"""The commands as Airflow's parser wants them. Loaded by every ``airflow`` command: imports nothing of ours."""

from __future__ import annotations

from airflow.cli.cli_config import ARG_VERBOSE, ActionCommand, Arg, GroupCommand, lazy_load_command

_LEDGER = "airflow_provider_ragops.cli.ledger"
_TARGET = Arg(("--target",), required=True, help="The serving target, NAMESPACE/DEPLOYMENT")
_DATE = Arg(("--date",), required=True, help="The UTC day, YYYY-MM-DD")
_CONNECTION = Arg(("--conn-id",), default="mlflow_default", help="The Airflow connection of MLflow")
_OUTPUT = Arg(("--output",), choices=("table", "json"), default="table", help="How to print it (default: table)")


def get_cli_commands() -> list[GroupCommand]:
    return [
        GroupCommand(
            name="ragops",
            help="What served, and what was released",
            subcommands=(
                ActionCommand(
                    name="served",
                    help="Every version that served a target on a day, and why",
                    func=lazy_load_command(f"{_LEDGER}.served"),
                    args=(_TARGET, _DATE, _CONNECTION, _OUTPUT, ARG_VERBOSE),
                ),
                ActionCommand(
                    name="history",
                    help="All releases and rollbacks of a target, newest first",
                    func=lazy_load_command(f"{_LEDGER}.history"),
                    args=(_TARGET, _CONNECTION, _OUTPUT, ARG_VERBOSE),
                ),
            ),
        )
    ]
