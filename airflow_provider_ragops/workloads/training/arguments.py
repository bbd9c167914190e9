"""The command line of the training pod."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from airflow_provider_ragops.contract import Partition
from airflow_provider_ragops.exceptions import ConfigurationError
from airflow_provider_ragops.workloads.training.parameters import BOUNDS, TrainingParameters, read

Value = TypeVar("Value")


@dataclass(frozen=True)
class TrainingArguments:
    """One training: which data, which parameters, where to register."""

    model: str
    experiment: str
    data_uri: str
    data_digest: str
    partition: str
    cutoff: str
    parameters: TrainingParameters


def parse(argv: Sequence[str] | None = None) -> TrainingArguments:
    """Read the command line; argparse prints what is wrong and exits with 2."""
    given = parser("airflow_provider_ragops.workloads.training").parse_args(argv)
    return of(given, TrainingParameters.parse(vars(given)))


def of(given: argparse.Namespace, parameters: TrainingParameters) -> TrainingArguments:
    """What was read from the command line, with the parameters of the kind of model."""
    return TrainingArguments(
        model=given.model, experiment=given.experiment, data_uri=given.data, data_digest=given.data_digest,
        partition=given.partition, cutoff=given.cutoff, parameters=parameters,
    )


def parser(program: str) -> argparse.ArgumentParser:
    """The arguments that every training takes."""
    found = argparse.ArgumentParser(program, description=__doc__, allow_abbrev=False)
    for flag, kind, text in (
        ("--model", text_value, "registered model"),
        ("--experiment", text_value, "MLflow experiment of the run"),
        ("--data", text_value, "MLflow artifact URI of the training set (parquet)"),
        ("--data-digest", text_value, "digest of that file (contract.file_digest)"),
        ("--partition", partition_key, "YYYY-MM-DD or YYYY-MM-DD_YYYY-MM-DD"),
        ("--cutoff", moment, "ISO time with zone: nothing later may be known to the training set"),
    ):
        found.add_argument(flag, type=kind, required=True, help=text)
    for name, (low, high) in BOUNDS.items():
        found.add_argument(
            f"--{name.replace('_', '-')}", dest=name, type=number(name), required=True, help=f"{low:g} to {high:g}"
        )
    return found


def text_value(text: str) -> str:
    if not text.strip():
        raise argparse.ArgumentTypeError("expected some text, saw an empty one")
    return text


def partition_key(text: str) -> str:
    return _explained(lambda: Partition.parse(text).key)


def moment(text: str) -> str:
    try:
        zoned = datetime.fromisoformat(text).tzinfo is not None
    except ValueError:
        zoned = False
    if not zoned:
        raise argparse.ArgumentTypeError(f"expected an ISO time with a zone, saw {text!r}")
    return text


def number(name: str) -> Callable[[str], int | float]:
    return lambda text: _explained(lambda: read(name, text))


def _explained(check: Callable[[], Value]) -> Value:
    try:
        return check()
    except ConfigurationError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
