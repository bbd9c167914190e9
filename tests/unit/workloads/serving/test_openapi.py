"""The application against its own OpenAPI: generated requests, bounded; and what the document promises."""

from __future__ import annotations

import json
import warnings
from collections import Counter
from typing import Any

import httpx
import jsonschema
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings

from airflow_provider_ragops.workloads.serving.app import create_app
from airflow_provider_ragops.workloads.serving.errors import CODES
from airflow_provider_ragops.workloads.serving.model import LoadedModel
from airflow_provider_ragops.workloads.serving.settings import Limits, Settings

from .conftest import listening, wait_until
from .formats.conftest import a_pyfunc
from .rag import MemoryCache, a_model

CASES = 80  # of /invocations, each of valid and of invalid requests
MODELS = {"rag": lambda: a_model(name="M"), "tabular": lambda: LoadedModel.of("M", "3", a_pyfunc("mixed"))}


def document(tmp_path: Any) -> dict[str, Any]:
    return create_app(Settings("M", "3", "http://unused", tmp_path)).openapi()


@pytest.mark.parametrize("kind", MODELS)
def test_generated_requests_get_what_the_document_promises(tmp_path: Any, kind: str, evidence: Counter[str]) -> None:
    """Valid and invalid requests: no 500, only documented statuses, content types and bodies of the documented form."""
    chosen = Settings("M", "3", "http://unused", tmp_path, Limits(request_seconds=5, body_bytes=100_000))
    app = create_app(chosen, lambda _: MODELS[kind](), opened=lambda settings, loaded: MemoryCache())
    with listening(app) as client, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of numpy and pandas, about what was generated
        wait_until(lambda: client.get("/health").status_code == 200)
        schema = schemathesis.openapi.from_dict(app.openapi())
        for path, method in (("/invocations", "POST"), ("/health", "GET"), ("/version", "GET"), ("/metrics", "GET")):
            operation = schema[path][method]
            # Of a request without parameters there is no invalid one.
            modes = list(schemathesis.GenerationMode) if list(operation.iter_parameters()) else ["positive"]
            for mode in modes:
                _ask(operation, mode, client, CASES if method == "POST" else 10, evidence)
        assert client.get("/health").status_code == 200


def _ask(operation: Any, mode: Any, client: httpx.Client, cases: int, evidence: Counter[str]) -> None:
    bounds = settings(max_examples=cases, deadline=None, derandomize=True, database=None,
                      suppress_health_check=list(HealthCheck))

    @bounds
    @given(operation.as_strategy(generation_mode=schemathesis.GenerationMode(mode)))
    def check(case: Any) -> None:
        seen = case.call(base_url=str(client.base_url), timeout=10)
        assert seen.status_code < 500 or operation.path == "/health", seen.text  # 503 is its way to say no
        case.validate_response(seen, checks=[
            schemathesis.checks.CHECKS.get_one(name)
            for name in ("status_code_conformance", "content_type_conformance", "response_schema_conformance")
        ])
        evidence["requests"] += 1

    check()


def test_the_document_is_valid_and_lists_every_code(tmp_path: Any) -> None:
    """OpenAPI 3.1 of all endpoints; each status of the table of errors, with its codes."""
    found = document(tmp_path)
    json.dumps(found)
    assert set(found["paths"]) == {"/invocations", "/health", "/health/live", "/ping", "/version", "/metrics"}
    responses = found["paths"]["/invocations"]["post"]["responses"]
    for row in CODES.values():
        assert row.code in responses[str(row.status)]["description"]
    for schema in found["components"]["schemas"].values():
        jsonschema.Draft202012Validator.check_schema(schema)
