"""The one list of what this package offers to Airflow. Imports nothing: discovery runs before Airflow is set up."""

from __future__ import annotations

from typing import Any

_PACKAGE = "airflow_provider_ragops"
_INTEGRATION = "RAGOps"

_OPERATORS = (
    "alert", "evaluation", "features", "gate", "guardrail", "lock", "materialization", "pair_set", "partition", "plan",
    "reconcile", "release", "retriever", "rollback", "target", "training", "training_set", "validation", "workload",
)  # fmt: skip
_SENSORS = ("guardrail", "partition")
_HOOKS = ("feast", "mlflow", "serving")
_TRIGGERS = ("partition",)


def get_provider_info() -> dict[str, Any]:
    """Return the provider's description, as ``airflow/provider_info.schema.json`` asks for it."""
    return {
        "package-name": "airflow-provider-ragops",
        "name": "RAGOps",
        "description": "Retrains a model, gates it and releases it safely to a Kubernetes serving tier.",
        "integrations": [
            {"integration-name": _INTEGRATION, "tags": ["service"]},
            {"integration-name": "MLflow", "external-doc-url": "https://mlflow.org/docs/latest/", "tags": ["service"]},
            {"integration-name": "Feast", "external-doc-url": "https://docs.feast.dev/", "tags": ["service"]},
        ],
        "operators": _modules("operators", _OPERATORS),
        "sensors": _modules("sensors", _SENSORS),
        "hooks": _modules("hooks", _HOOKS),
        "triggers": _modules("triggers", _TRIGGERS),
        "connection-types": [_mlflow_connection(), _feast_connection()],
        "cli": [f"{_PACKAGE}.cli.definition.get_cli_commands"],
        "extra-links": [f"{_PACKAGE}.links.mlflow.MlflowRunLink"],
        "notifications": [f"{_PACKAGE}.notifications.alert.AlertNotifier"],
    }


def _modules(kind: str, names: tuple[str, ...]) -> list[dict[str, Any]]:
    return [{"integration-name": _INTEGRATION, "python-modules": [f"{_PACKAGE}.{kind}.{name}" for name in names]}]


def _mlflow_connection() -> dict[str, Any]:
    return {
        "connection-type": "mlflow",
        "hook-class-name": f"{_PACKAGE}.hooks.mlflow.MlflowHook",
        "hook-name": "MLflow",
        "ui-field-behaviour": {
            "hidden-fields": [],
            "relabeling": {"schema": "Scheme", "login": "User"},
            "placeholders": {"host": "mlflow.example.com", "port": "5000", "schema": "http"},
        },
        "conn-fields": {
            "token": _text("Token", "Sent as a bearer token instead of user and password.", format="password"),
            "ca_path": _text("CA file", "Certificates that the server's certificate is checked against."),
            "tracking_uri": _text("Tracking URI", "Overrides scheme, host and port, for example sqlite:////data/m.db."),
        },
    }


def _feast_connection() -> dict[str, Any]:
    return {
        "connection-type": "feast",
        "hook-class-name": f"{_PACKAGE}.hooks.feast.FeastHook",
        "hook-name": "Feast",
        "ui-field-behaviour": {
            "hidden-fields": ["host", "port", "login", "schema"],
            "relabeling": {"password": "Password of Redis"},
            "placeholders": {},
        },
        "conn-fields": {
            "repo": _text("Repository", "Folder of feature_store.yaml."),
            "registry_url": _text("Registry URL", "SQLAlchemy URL; FEAST_REGISTRY_URL in the YAML.", format="password"),
            "redis_url": _text("Redis URL", "redis:// or rediss://; FEAST_REDIS in the YAML.", format="password"),
        },
    }


def _text(label: str, description: str, **schema: Any) -> dict[str, Any]:
    return {"label": label, "description": description, "schema": {"type": ["string", "null"], **schema}}
