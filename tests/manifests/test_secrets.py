"""No credential stands in values, in what is rendered from them, or in what Helm says about them."""

from __future__ import annotations

from typing import Any

import helm_python as helm
import pytest

from .conftest import CHART, SECRETS, Render, container, env, kinds, pod

CANARY = "canary-7d1f"
REFERENCES = {
    "MLFLOW_TRACKING_USERNAME": ("mlflow-login", "username"),
    "MLFLOW_TRACKING_PASSWORD": ("mlflow-login", "password"),
    "MLFLOW_TRACKING_TOKEN": ("mlflow-login", "token"),
    "REDIS_URL": ("redis-login", "url"),
    "REDIS_USERNAME": ("redis-login", "username"),
    "REDIS_PASSWORD": ("redis-login", "password"),
    "SERVING_LOG_KEY": ("log-key", "key"),
}


def test_credentials_are_references(render: Render) -> None:
    """Each by secretKeyRef, optional because one Secret holds a token or a login; no Secret, no variable."""
    found = env(render(SECRETS))
    for name, (secret, key) in REFERENCES.items():
        reference = {"name": secret, "key": key, "optional": True}
        assert found[name] == {"name": name, "valueFrom": {"secretKeyRef": reference}}
    assert not REFERENCES.keys() & env(render()).keys()


def test_the_keys_of_a_secret_are_the_installers(render: Render) -> None:
    """A Secret that someone else made has names of its own."""
    redis = {"secret": "r", "urlKey": "uri", "passwordKey": "pass"}
    found = env(render({"redis": redis, "mlflow": {"secret": "m", "tokenKey": "t"}}))
    keys = {name: found[name]["valueFrom"]["secretKeyRef"]["key"] for name in REFERENCES if name in found}
    assert (keys["REDIS_URL"], keys["REDIS_PASSWORD"]) == ("uri", "pass")
    assert keys["MLFLOW_TRACKING_TOKEN"] == "t"


def test_the_chart_makes_no_secret(render: Render) -> None:
    """It would hold the credential in Helm's own record of the release; and nothing is mounted but certificates."""
    objects = render(SECRETS)
    assert not {"Secret", "ConfigMap"} & kinds(objects)
    mounted = {one["secret"]["secretName"] for one in pod(objects)["volumes"] if "secret" in one}
    assert mounted == {"mlflow-ca", "redis-ca", "redis-client"}
    assert "envFrom" not in container(objects)


def plain(name: str) -> dict[str, Any]:
    return {"extraEnv": [{"name": name, "value": CANARY}]}


@pytest.mark.parametrize("values", [
    *map(plain, (
        "DB_PASSWORD", "PGPASSWORD", "db_password", "SMTP_PASSWD", "KEY_PASSPHRASE", "HF_TOKEN", "API_TOKENS", "TOKEN",
        "AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY_ID", "OPENAI_API_KEY", "APIKEY", "CLIENT_SECRET", "MYSQL_PWD",
        "MLFLOW_TRACKING_PASSWORD", "MLFLOW_TRACKING_TOKEN", "REDIS_URL", "REDIS_PASSWORD", "SERVING_LOG_KEY",
    )),
    {"extraEnv": [{"name": "DB_PASSWORD", "valueFrom": {"configMapKeyRef": {"name": CANARY, "key": "k"}}}]},
    {"extraEnv": [{"name": "DB_PASSWORD", "value": CANARY, "valueFrom": {"secretKeyRef": {"name": "n", "key": "k"}}}]},
    {"extraEnv": [{"name": "HTTPS_PROXY", "value": f"http://me:{CANARY}@proxy:3128"}]},
    {"extraEnv": [{"name": "REDIS", "value": f"redis://:{CANARY}@redis:6379/0"}]},
    {"mlflow": {"trackingUri": f"http://me:{CANARY}@mlflow:5000"}},
    {"mlflow": {"trackingUri": f"https://{CANARY}@mlflow"}},
    {"mlflow": {"password": CANARY}}, {"mlflow": {"token": CANARY}}, {"mlflow": {"ca": CANARY}},
    {"redis": {"url": f"redis://:{CANARY}@r"}}, {"redis": {"password": CANARY}}, {"redis": {"host": CANARY}},
    {"podAnnotations": {"scrape": f"http://me:{CANARY}@p"}}, {"ingress": {"annotations": {"a": f"x://u:{CANARY}@h"}}},
    {"logKey": CANARY},
])  # fmt: skip
def test_a_credential_in_the_values_is_refused_and_not_repeated(render: Render, values: dict[str, Any]) -> None:
    """Helm would keep it in its record of the release, and print it: refused, by install and by lint."""
    with pytest.raises(helm.HelmError) as refused:
        render(values)
    assert CANARY not in str(refused.value)
    report = helm.lint(CHART, values, strict=True)
    assert report["errors"]
    assert CANARY not in str(report)


@pytest.mark.parametrize("variable", [
    {"name": "TOKENIZERS_PARALLELISM", "value": "false"}, {"name": "KEYSPACE", "value": "a"},
    {"name": "AWS_CONFIG_FILE", "value": "/etc/aws"}, {"name": "DB_PASSWORD_FILE", "value": "/run/secret"},
    {"name": "HTTPS_PROXY", "value": "http://proxy:3128/a@b"}, {"name": "MONKEY_PATCH", "value": "1"},
    {"name": "DB_PASSWORD", "valueFrom": {"secretKeyRef": {"name": "db", "key": "password"}}},
])  # fmt: skip
def test_what_is_no_credential_is_taken(render: Render, variable: dict[str, Any]) -> None:
    """A word inside another, a path, a reference: control of the test above."""
    assert variable in container(render({"extraEnv": [variable]}))["env"]
