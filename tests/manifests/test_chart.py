"""What holds for every set of values: valid objects, no version, no rollout of its own."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from typing import Any

import helm_python as helm
import kubernetes_validate
import pytest
import yaml

from .conftest import CHART, SECRETS, Objects, Render, container, kinds, the

STORE = {"to": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]}
EGRESS = {"enabled": True, "redis": {"to": [{"podSelector": {}}]}, "extra": [STORE]}
PEERS = [{"namespaceSelector": {}}]
INGRESS = {"enabled": True, "host": "m.example", "className": "x", "tlsSecret": "tls", "annotations": {"a": "b"}}
METRIC = {"enabled": True, "podMetric": {"name": "DCGM_FI_DEV_GPU_UTIL"}}

# Templates do not see each other: every combination within one of them is every combination.
SWITCHES: dict[str, dict[str, list[Any]]] = {
    "the pod": {
        "gpus": [0, 2],
        "autoscaling": [{}, {"enabled": True}, METRIC],
        "mlflow": [{}, SECRETS["mlflow"]],
        "redis": [{}, {"secret": "redis-login"}, SECRETS["redis"]],
        "modelCache": [{}, {"hostPath": "/var/cache/models"}, {"persistentVolumeClaim": "models"}],
    },
    "placement": {
        "image": [{}, {"digest": "sha256:" + "a" * 64, "pullSecrets": ["registry"]}],
        "tolerations": [[], [{"key": "nvidia.com/gpu", "operator": "Exists"}]],
        "topologySpreadConstraints": [[], [
            {"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway"},
        ]],
        "nodeSelector": [{}, {"pool": "gpu"}],
        "podAnnotations": [{}, {"team": "churn"}],
        "extraEnv": [[], [{"name": "TZ", "value": "UTC"}]],
    },
    "around it": {
        "podDisruptionBudget": [{}, {"enabled": False}],
        "autoscaling": [{}, {"enabled": True}, METRIC],
        "networkPolicy": [
            {}, {"enabled": True}, {"enabled": True, "from": PEERS}, {"enabled": True, "egress": EGRESS},
        ],
        "redis": [{}, {"secret": "redis-login"}],
        "ingress": [{}, {"enabled": True}, INGRESS],
        "monitoring": [{}, {"assumeApi": True, "podMonitor": True}, {"assumeApi": True, "rules": True}],
    },
    "rights": {
        "releaser": [{}, {"create": False}, {"nodeReader": True}],
        "training": [{}, {"create": False}, {"createNamespace": True}],
        "name": ["mlflow-serve", "churn-staging"],
        "replicas": [0, 1],
        "logKeySecret": ["", "log-key"],
    },
}


def combinations(switches: dict[str, list[Any]]) -> Iterator[dict[str, Any]]:
    return (dict(zip(switches, chosen, strict=True)) for chosen in itertools.product(*switches.values()))


#: Everything at once, and nothing.
EXTREMES = [{}, {switch: values[-1] for part in SWITCHES.values() for switch, values in part.items()}]


def check(one: dict[str, Any]) -> None:
    """Against the schemas of the newest Kubernetes. Strict: a field that it would silently drop is an error."""
    kubernetes_validate.validate(one, kubernetes_validate.latest_version(), strict=True)


@pytest.mark.parametrize("part", SWITCHES)
def test_every_combination_of_switches_is_valid(render: Render, part: str) -> None:
    """Each renders objects that a current cluster takes; what is not Kubernetes' own is checked elsewhere."""
    seen: dict[str, dict[str, Any]] = {}
    for values in combinations(SWITCHES[part]):
        objects = render(values)
        assert {"Deployment", "Service"} <= kinds(objects)
        names = [(one["kind"], one["metadata"]["name"]) for one in objects]
        assert len(names) == len(set(names))
        seen |= {json.dumps(one, sort_keys=True): one for one in objects}
    for one in seen.values():
        if not one["apiVersion"].startswith("monitoring.coreos.com/"):
            check(one)


def test_the_validator_would_notice_a_misplaced_field(render: Render) -> None:
    """Control of the test above: strategy inside the pod spec is ignored by Kubernetes and refused here."""
    deployment = the(render(), "Deployment")
    deployment["spec"]["template"]["spec"]["strategy"] = {}
    with pytest.raises(kubernetes_validate.ValidationError):
        check(deployment)


@pytest.mark.parametrize("values", [*EXTREMES, SECRETS])
def test_helm_finds_nothing_to_complain_about(values: dict[str, Any]) -> None:
    """helm lint, strict."""
    report = helm.lint(CHART, values, strict=True)
    assert report["errors"] == []
    assert [message for message in report["messages"] if message["severity"] >= 2] == []


def test_every_value_has_a_schema_and_every_schema_a_value() -> None:
    """A value that the schema does not know is refused, so a slip in a name is no silent default."""
    def compare(values: Any, schema: dict[str, Any], at: str) -> None:
        properties = schema.get("properties")
        if properties is None:
            return
        assert schema["additionalProperties"] is False, at
        assert set(values) == set(properties) - {"global"}, at
        for name, value in values.items():
            compare(value, properties[name], f"{at}.{name}")

    schema = json.loads((CHART / "values.schema.json").read_text())
    compare(yaml.safe_load((CHART / "values.yaml").read_text()), schema, "")


@pytest.mark.parametrize("values", EXTREMES)
def test_the_chart_never_names_a_version(render: Render, values: dict[str, Any]) -> None:
    """A version or a release record in the chart would be written back by the next helm upgrade."""
    assert not re.search(r"MODEL_VERSION|airflow-provider-ragops/release", str(render(values)))


def template(objects: Objects) -> str:
    return json.dumps(the(objects, "Deployment")["spec"]["template"], sort_keys=True)


@pytest.mark.parametrize("values", [
    {"replicas": 5}, {"autoscaling": METRIC}, {"networkPolicy": {"enabled": True, "egress": EGRESS}},
    {"ingress": INGRESS}, {"monitoring": {"assumeApi": True, "podMonitor": True, "rules": True}},
    {"podDisruptionBudget": {"enabled": False}}, {"service": {"port": 80}}, {"rollout": {"minReadySeconds": 30}},
    {"releaser": {"nodeReader": True}},
])  # fmt: skip
def test_what_is_around_the_pods_starts_no_rollout(render: Render, values: dict[str, Any]) -> None:
    """R3: only what the pods themselves are made of changes their template; an equal chart renders an equal one."""
    assert template(render(values)) == template(render()) == template(render())


def test_a_version_cannot_be_slipped_in(render: Render) -> None:
    """Not by extraEnv either."""
    with pytest.raises(helm.HelmError, match="extraEnv"):
        render({"extraEnv": [{"name": "MODEL_VERSION", "value": "3"}]})


def test_the_image_is_pinned_by_digest_when_one_is_given(render: Render) -> None:
    """The digest wins over the tag."""
    digest = "sha256:" + "a" * 64
    assert container(render({"image": {"repository": "r/s", "tag": "1"}}))["image"] == "r/s:1"
    assert container(render({"image": {"repository": "r/s", "digest": digest}}))["image"] == f"r/s@{digest}"


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"replicas": "two"}, "replicas"),
        ({"replica": 2}, "replica"),
        ({"name": "MLflow_Serve"}, "name"),
        ({"model": {"name": ""}}, "name"),
        ({"rollout": {"minReadySeconds": 1}}, "minReadySeconds"),
        ({"rollout": {"startupSeconds": 0}}, "startupSeconds"),
        ({"gpus": -1}, "gpus"),
        ({"gpus": 1, "shmSize": "much"}, "shmSize"),
        ({"image": {"digest": "latest"}}, "digest"),
        ({"modelCache": {"hostPath": "relative"}}, "hostPath"),
        ({"modelCache": {"hostPath": "/a", "persistentVolumeClaim": "b"}}, "not both"),
        ({"service": {"port": 0}}, "port"),
        ({"redis": {"prefix": "{shop}:"}}, "prefix"),
        ({"redis": {"caSecret": "ca"}}, "without secret"),
        ({"redis": {"clientSecret": "client"}}, "without secret"),
        ({"redis": {"ttlSeconds": 0}}, "ttlSeconds"),
        ({"redis": {"budgetMilliseconds": 0}}, "budgetMilliseconds"),
        ({"ingress": {"paths": ["invocations"]}}, "paths"),
        ({"ingress": {"paths": []}}, "paths"),
        ({"networkPolicy": {"egress": {"mlflow": {"ports": []}}}}, "ports"),
        ({"autoscaling": {"podMetric": {"averageValue": "80m"}}}, "averageValue"),
        ({"autoscaling": {"enabled": True, "minReplicas": 5}}, r"minReplicas \(5\).*maxReplicas \(4\)"),
        ({"autoscaling": {"enabled": True}, "resources": {"requests": {"cpu": None}}}, "resources.requests.cpu"),
        ({"monitoring": {"intervalSeconds": 300}}, "intervalSeconds"),
        ({"monitoring": {"latencyFactor": 1}}, "latencyFactor"),
    ],
)
def test_bad_values_are_refused_by_name(render: Render, values: dict[str, Any], named: str) -> None:
    """helm refuses before anything is sent, and names the value."""
    with pytest.raises(helm.HelmError, match=named):
        render(values)
