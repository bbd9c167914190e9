"""The chart rendered by Helm's own engine, offline."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import helm_python as helm
import pytest
import yaml
from demo.paths import ROOT

CHART = ROOT / "docker" / "chart"
Objects = list[dict[str, Any]]
Render = Callable[..., Objects]

#: Every value that names a Secret.
SECRETS: dict[str, Any] = {
    "mlflow": {"secret": "mlflow-login", "caSecret": "mlflow-ca"},
    "redis": {"secret": "redis-login", "caSecret": "redis-ca", "clientSecret": "redis-client", "cluster": True},
    "logKeySecret": "log-key",
}


@pytest.fixture(scope="session")
def render() -> Render:
    """``render(values)`` → the objects. Rendered as for a current cluster, which has every API of Kubernetes' own."""

    def objects(values: dict[str, Any] | None = None) -> Objects:
        with helm.Chart.load(CHART) as chart:
            files = chart.render(values or {}, name="mlflow-serve", namespace="ml-serving")
        rendered = [text for name, text in files.items() if name.endswith(".yaml")]
        return [one for text in rendered for one in yaml.load_all(text, yaml.CSafeLoader) if one]

    return objects


def the(objects: Objects, kind: str, name: str | None = None) -> dict[str, Any]:
    """The one object of that kind (and name)."""
    found = [one for one in objects if one["kind"] == kind and name in (None, one["metadata"]["name"])]
    assert len(found) == 1, f"{kind} {name}: {len(found)} found"
    return found[0]


def kinds(objects: Objects) -> set[str]:
    return {one["kind"] for one in objects}


def pod(objects: Objects) -> dict[str, Any]:
    return dict(the(objects, "Deployment")["spec"]["template"]["spec"])


def container(objects: Objects) -> dict[str, Any]:
    return dict(pod(objects)["containers"][0])


def env(objects: Objects) -> dict[str, Any]:
    """Variables of the serving container by name."""
    return {one["name"]: one for one in container(objects)["env"]}
