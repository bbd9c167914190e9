from __future__ import annotations

import pytest

from airflow_provider_ragops.workloads.evaluation import arguments as evaluation
from airflow_provider_ragops.workloads.training import arguments
from airflow_provider_ragops.workloads.training.parameters import TrainingParameters

GIVEN = {
    "--model": "Churn", "--experiment": "churn", "--data": "runs:/r/t.parquet", "--data-digest": "d",
    "--partition": "2026-11-29", "--cutoff": "2026-08-31T00:00:00+00:00", "--epochs": "3", "--batch-size": "64",
    "--learning-rate": "0.01", "--seed": "7",
}  # fmt: skip


def line(given: dict[str, str]) -> list[str]:
    return [text for pair in given.items() for text in pair]


def test_command_line_is_read() -> None:
    """All arguments arrive as what they mean."""
    found = arguments.parse(line(GIVEN))
    assert (found.model, found.data_uri, found.partition) == ("Churn", "runs:/r/t.parquet", "2026-11-29")
    assert found.parameters == TrainingParameters(3, 64, 0.01, 7)


@pytest.mark.parametrize(
    ("flag", "value", "message"),
    [
        ("--epochs", "0", "whole number from 1 to 10000; saw '0'"),
        ("--learning-rate", "fast", "a number from 1e-08 to 10; saw 'fast'"),
        ("--partition", "29.11.2026", "expected YYYY-MM-DD"),
        ("--cutoff", "2026-08-31", "expected an ISO time with a zone, saw '2026-08-31'"),
        ("--cutoff", "yesterday", "expected an ISO time with a zone"),
        ("--model", " ", "expected some text"),
    ],
)
def test_wrong_arguments_are_explained(
    flag: str, value: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A wrong argument ends the process with 2, naming the flag, what was expected and what was seen."""
    with pytest.raises(SystemExit, match="2"):
        arguments.parse(line(GIVEN | {flag: value}))
    shown = " ".join(capsys.readouterr().err.split())
    assert f"argument {flag}" in shown
    assert message in shown


def test_missing_argument_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    """A missing argument is named."""
    with pytest.raises(SystemExit, match="2"):
        arguments.parse(line({flag: value for flag, value in GIVEN.items() if flag != "--seed"}))
    assert "--seed" in capsys.readouterr().err


EVALUATION = {
    "--model": "Churn", "--candidate": "3", "--champion": "none", "--data": "u", "--data-digest": "d",
    "--partition": "2026-11-29",
}  # fmt: skip


@pytest.mark.parametrize(("given", "expected"), [("none", None), ("2", "2")])
def test_no_champion_is_none(given: str, expected: str | None) -> None:
    """The word none stands for no champion."""
    assert evaluation.parse(line(EVALUATION | {"--champion": given})).champion == expected


@pytest.mark.parametrize("flag", ["--candidate", "--champion"])
def test_aliases_are_refused(flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    """M3: an alias is resolved at each load and moves: a pod takes version numbers only."""
    with pytest.raises(SystemExit, match="2"):
        evaluation.parse(line(EVALUATION | {flag: "champion"}))
    assert f"argument {flag}: expected the number of a version (an alias moves)" in capsys.readouterr().err
