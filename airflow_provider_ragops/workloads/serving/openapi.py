"""The application's OpenAPI: what callers may send, what they get, and every error with its code."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_provider_ragops.workloads.serving.errors import CODES

if TYPE_CHECKING:
    from fastapi import FastAPI

Json = dict[str, Any]

_TEXT: Json = {"type": "string"}
_METADATA: Json = {
    "type": "object", "required": ["model_name", "model_version"],
    "properties": {"model_name": _TEXT, "model_version": _TEXT, "cache": {"type": "object"}},
}
_ROWS: Json = {"type": "array", "items": {"type": "array", "items": {}}}

SCHEMAS: dict[str, Json] = {
    "Questions": {
        "type": "object", "required": ["queries"], "additionalProperties": False,
        "description": "For RAG models. Without customer_id nothing is cached for the customer.",
        "properties": {
            "queries": {"type": "array", "minItems": 1, "items": {"type": "string", "minLength": 1}},
            "customer_id": {"anyOf": [_TEXT, {"type": "integer"}, {"type": "null"}]},
        },
    },
    "DataframeSplit": {
        "type": "object", "required": ["dataframe_split"],
        "properties": {"dataframe_split": {
            "type": "object", "required": ["data"], "additionalProperties": False,
            "properties": {"columns": {"type": "array", "items": _TEXT}, "index": {"type": "array"}, "data": _ROWS},
        }},
    },
    "DataframeRecords": {
        "type": "object", "required": ["dataframe_records"],
        "properties": {"dataframe_records": {"type": "array", "items": {"type": "object"}}},
    },
    "Instances": {"type": "object", "required": ["instances"], "properties": {"instances": {"type": "array"}}},
    "Inputs": {"type": "object", "required": ["inputs"], "properties": {"inputs": {}}},
    "Predictions": {
        "type": "object", "required": ["predictions", "metadata"],
        "properties": {"predictions": {}, "metadata": _METADATA},
    },
    "Answers": {
        "type": "object", "required": ["answers", "metadata"],
        "properties": {"answers": {"type": "array", "items": {"$ref": "#/components/schemas/Answer"}},
                       "metadata": _METADATA},
    },
    "Answer": {
        "type": "object", "required": ["text", "sources", "sub_queries"],
        "properties": {"text": _TEXT, "sources": {"type": "array", "items": {
            "type": "object", "required": ["id", "title", "score"],
            "properties": {"id": _TEXT, "title": _TEXT, "score": {"type": "number"}},
        }}, "sub_queries": {"type": "array", "items": _TEXT}},
    },
    "Error": {
        "type": "object", "required": ["code", "error_code", "message"],
        "properties": {
            "code": {"type": "string", "enum": sorted(row.code for row in CODES.values())},
            "error_code": {"type": "string", "description": "MLflow's code for the same."},
            "message": _TEXT, "columns": {"type": "array", "items": _TEXT},
            "model_name": _TEXT, "model_version": _TEXT,
            "requested_model_name": _TEXT, "requested_model_version": _TEXT,
        },
    },
    "Health": {
        "type": "object", "required": ["status", "model_name", "model_version", "detail", "code", "checks"],
        "properties": {
            "status": {"enum": ["ready", "loading", "no version assigned", "failed", "other version", "stopping",
                                "stuck"]},
            "model_name": _TEXT, "model_version": _TEXT, "detail": _TEXT, "code": _TEXT,
            "checks": {"type": "object", "additionalProperties": _TEXT},
        },
    },
}


def _schema(*names: str) -> Json:
    found: list[Json] = [{"$ref": f"#/components/schemas/{name}"} for name in names]
    return found[0] if len(found) == 1 else {"anyOf": found}


def _json(description: str, *names: str) -> Json:
    return {"description": description, "content": {"application/json": {"schema": _schema(*names)}}}


def _errors() -> dict[str, Json]:
    by_status: dict[int, list[str]] = {}
    for row in CODES.values():
        by_status.setdefault(row.status, []).append(row.code)
    return {str(status): _json(", ".join(codes), "Error") for status, codes in sorted(by_status.items())}


def _invocations() -> Json:
    inputs = ("Questions", "DataframeSplit", "DataframeRecords", "Instances", "Inputs")
    return {
        "summary": "Answer questions, or predict",
        "operationId": "invocations",
        "parameters": _parameters("Refuse with 409 where the pod serves another one."),
        "requestBody": {"required": True, "content": {
            "application/json": {"schema": _schema(*inputs)}, "text/csv": {"schema": _TEXT},
        }},
        "responses": {"200": _json("Answers or predictions", "Answers", "Predictions"), **_errors()},
    }


def _parameters(description: str) -> list[Json]:
    return [{"name": name, "in": "query", "required": False, "schema": _TEXT, "description": description}
            for name in ("model_name", "model_version")]


def describe(app: FastAPI) -> None:
    """Replace what FastAPI would generate, which knows neither the raw endpoint nor its errors."""
    from airflow_provider_ragops import __version__

    alive = {"200": {"description": "Alive"}, "503": {"description": "Every worker hangs: restart"}}
    unready = {"200": _json("Ready", "Health"), "503": _json("Not ready, or another version", "Health")}
    plain = {"200": {"description": "Prometheus text", "content": {"text/plain": {"schema": _TEXT}}}}
    document = {
        "openapi": "3.1.0", "info": {"title": "mlflow-serve", "version": __version__},
        "paths": {
            "/invocations": {"post": _invocations()},
            "/health": {"get": {"summary": "Ready, with which version", "operationId": "health",
                                "parameters": _parameters("503 where another one is loaded."), "responses": unready}},
            "/health/live": {"get": {"summary": "Alive", "operationId": "live", "responses": alive}},
            "/ping": {"get": {"summary": "Alive", "operationId": "ping", "responses": alive}},
            "/version": {"get": {"summary": "Versions of model and software", "operationId": "version",
                                 "responses": {"200": {"description": "Versions"}}}},
            "/metrics": {"get": {"summary": "Metrics", "operationId": "metrics", "responses": plain}},
        },
        "components": {"schemas": SCHEMAS},
    }
    app.openapi = lambda: document  # type: ignore[method-assign]
