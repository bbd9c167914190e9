"""The command line of the evaluation pod."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass

from airflow_provider_ragops.contract import NO_VERSION
from airflow_provider_ragops.exceptions import ConfigurationError
from airflow_provider_ragops.workloads.evaluation.slices import Slice
from airflow_provider_ragops.workloads.evaluation.slices import parse as parse_slices
from airflow_provider_ragops.workloads.training.arguments import partition_key, text_value


@dataclass(frozen=True)
class EvaluationArguments:
    """Two pinned versions of one model, the training set whose held-out rows they score, and how to slice those."""

    model: str
    candidate: str
    champion: str | None
    data_uri: str
    data_digest: str
    partition: str
    slices: tuple[Slice, ...] = ()


def parse(
    argv: Sequence[str] | None = None, program: str = "airflow_provider_ragops.workloads.evaluation"
) -> EvaluationArguments:
    """Read the command line; argparse prints what is wrong and exits with 2."""
    parser = argparse.ArgumentParser(program, description=__doc__, allow_abbrev=False)
    for flag, kind, text in (
        ("--model", text_value, "registered model"),
        ("--candidate", version, "version number"),
        ("--champion", version_or_none, f"version number, or {NO_VERSION}"),
        ("--data", text_value, "MLflow artifact URI of the training set (parquet)"),
        ("--data-digest", text_value, "digest of that file (contract.file_digest)"),
        ("--partition", partition_key, "YYYY-MM-DD or YYYY-MM-DD_YYYY-MM-DD"),
    ):
        parser.add_argument(flag, type=kind, required=True, help=text)
    parser.add_argument("--slices", type=slices, default=(), help="FEATURE:N or FEATURE, separated by commas")
    given = parser.parse_args(argv)
    champion = None if given.champion == NO_VERSION else given.champion
    return EvaluationArguments(
        given.model, given.candidate, champion, given.data, given.data_digest, given.partition, given.slices
    )


def slices(text: str) -> tuple[Slice, ...]:
    try:
        return parse_slices(text)
    except ConfigurationError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def version(text: str) -> str:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"expected the number of a version (an alias moves), saw {text!r}")
    return text


def version_or_none(text: str) -> str:
    return text if text == NO_VERSION else version(text)
