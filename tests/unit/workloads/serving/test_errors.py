from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import airflow_provider_ragops
from airflow_provider_ragops import exceptions
from airflow_provider_ragops.exceptions import ServingError
from airflow_provider_ragops.workloads.serving.errors import CODES, Code, code_of, error_answer

ROOT = Path(airflow_provider_ragops.__file__).parents[1]


def test_every_serving_error_has_one_row() -> None:
    """A new error without a code would be told as a server's fault; two with one code could not be told apart."""
    kinds = {kind for kind in vars(exceptions).values() if isinstance(kind, type) and issubclass(kind, ServingError)}
    assert kinds <= set(CODES)
    assert len({row.code for row in CODES.values()}) == len(CODES)


@pytest.mark.parametrize("row", CODES.values(), ids=lambda row: row.code)
def test_mlflows_clients_understand_the_error(row: Code) -> None:
    """``error_code`` is one of MLflow's: its client raises with it, and with our message."""
    from mlflow.exceptions import RestException

    body = {"code": row.code, "error_code": row.mlflow, "message": "why"}
    raised = RestException(body)
    assert raised.error_code == row.mlflow
    assert "why" in str(raised)


def test_the_pages_table_is_the_codes_table() -> None:
    """docs/serving.md lists each code with its status and MLflow's code."""
    page = (ROOT / "docs" / "serving.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \| (\d{3}) \| `(\w+)` \|", page, re.MULTILINE)
    assert sorted(rows) == sorted((row.code, str(row.status), row.mlflow) for row in CODES.values())


def test_what_is_no_error_of_ours_is_told_by_kind_only() -> None:
    """A server's fault, without the text."""
    answer = error_answer(KeyError("canary"))
    assert (answer.status, json.loads(answer.body)["code"]) == (500, "internal_error")
    assert "canary" not in answer.body
    assert code_of(KeyError()).retry_after == 0
