from __future__ import annotations

import re
from typing import Any

import helm_python as helm
import kubernetes_validate
import pytest

from .conftest import CHART, Render, container, the

SECRETS = {"mlflow": {"secret": "mlflow-login", "caSecret": "mlflow-ca"}, "redis": {"secret": "redis-login"}}
EVERYTHING: dict[str, Any] = {
    **SECRETS,
    "gpus": 1,
    "autoscaling": {"enabled": True},
    "networkPolicy": {"enabled": True, "from": [{"namespaceSelector": {}}]},
    "releaser": {"nodeReader": True},
    "training": {"createNamespace": True},
    "modelCache": {"persistentVolumeClaim": "models"},
    "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
    "extraEnv": [{"name": "TZ", "value": "UTC"}],
    "image": {"digest": "sha256:" + "a" * 64, "pullSecrets": ["registry"]},
    "podAnnotations": {"team": "churn"},
}
VALUE_SETS: list[dict[str, Any]] = [
    {}, EVERYTHING, SECRETS, {"modelCache": {"hostPath": "/var/cache/models"}},
    {"name": "churn-staging", "replicas": 1},
]


@pytest.mark.parametrize("values", VALUE_SETS)
def test_every_object_is_valid_in_a_current_cluster(render: Render, values: dict[str, Any]) -> None:
    """Strict: a field that Kubernetes would silently drop is an error."""
    for one in render(values):
        kubernetes_validate.validate(one, kubernetes_validate.latest_version(), strict=True)


def test_the_validator_would_notice_a_misplaced_field(render: Render) -> None:
    """Control of the test above: strategy inside the pod spec is ignored by Kubernetes and refused here."""
    deployment = the(render(), "Deployment")
    deployment["spec"]["template"]["spec"]["strategy"] = {}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(deployment, kubernetes_validate.latest_version(), strict=True)


@pytest.mark.parametrize("values", VALUE_SETS)
def test_helm_finds_nothing_to_complain_about(values: dict[str, Any]) -> None:
    """helm lint, strict."""
    report = helm.lint(CHART, values, strict=True)
    assert report["errors"] == []
    assert [message for message in report["messages"] if message["severity"] >= 2] == []


@pytest.mark.parametrize("values", VALUE_SETS)
def test_the_chart_never_names_a_version(render: Render, values: dict[str, Any]) -> None:
    """A version or a release record in the chart would be written back by the next helm upgrade."""
    assert not re.search(r"MODEL_VERSION|airflow-provider-ragops/release", str(render(values)))


def test_a_version_cannot_be_slipped_in(render: Render) -> None:
    """Not by extraEnv either."""
    with pytest.raises(helm.HelmError, match="extraEnv"):
        render({"extraEnv": [{"name": "MODEL_VERSION", "value": "3"}]})


def test_credentials_come_from_secrets_only(render: Render) -> None:
    """Each by secretKeyRef; no Secret, no variable; an address with a password in it is refused."""
    by_name = {one["name"]: one for one in container(render(SECRETS))["env"]}
    wanted = {
        "MLFLOW_TRACKING_USERNAME": ("mlflow-login", "username"),
        "MLFLOW_TRACKING_PASSWORD": ("mlflow-login", "password"),
        "MLFLOW_TRACKING_TOKEN": ("mlflow-login", "token"),
        "REDIS_URL": ("redis-login", "url"),
        "REDIS_PASSWORD": ("redis-login", "password"),
    }
    for name, (secret, key) in wanted.items():
        assert "value" not in by_name[name]
        assert by_name[name]["valueFrom"]["secretKeyRef"] == {"name": secret, "key": key, "optional": True}
    assert not wanted.keys() & {one["name"] for one in container(render())["env"]}
    assert not [one for one in render(EVERYTHING) if one["kind"] == "Secret"]


def test_pods_are_replaced_one_by_one_and_drained(render: Render) -> None:
    """R5: a new pod first; endpoints forget a pod before it stops; requests in flight fit into the grace period."""
    spec = the(render(), "Deployment")["spec"]
    assert spec["replicas"] == 2
    assert spec["strategy"] == {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    assert spec["minReadySeconds"] == 5
    assert spec["template"]["spec"]["terminationGracePeriodSeconds"] == 40
    assert container(render())["lifecycle"]["preStop"]["exec"]["command"] == ["/bin/sh", "-c", "sleep 5"]
    drain = next(one for one in container(render())["env"] if one["name"] == "SERVING_DRAIN_SECONDS")
    assert 5 + int(drain["value"]) < 40


@pytest.mark.parametrize("values", [{}, {"rollout": {"preStopSeconds": 15}}])
def test_a_release_takes_the_charts_pods(render: Render, values: dict[str, Any]) -> None:
    """R6: what a release refuses to roll is nothing that the chart renders."""
    from airflow_provider_ragops.rollout.shutdown import template_fault

    found = the(render(values), "Deployment")
    assert template_fault(found) == ""
    found["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = 5
    assert "container mlflow-serve sleeps" in template_fault(found)


def test_pods_run_without_rights(render: Render) -> None:
    """Non-root, nothing writable but /tmp and the cache, no capabilities, no token."""
    pod = the(render(), "Deployment")["spec"]["template"]["spec"]
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container(render())["securityContext"] == {
        "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]},
    }


@pytest.mark.parametrize(
    ("cache", "volume"),
    [
        ({}, {"emptyDir": {"sizeLimit": "4Gi"}}),
        ({"hostPath": "/var/cache/models"}, {"hostPath": {"path": "/var/cache/models", "type": "Directory"}}),
        ({"persistentVolumeClaim": "models"}, {"persistentVolumeClaim": {"claimName": "models"}}),
    ],
)
def test_each_pod_has_a_cache_of_its_own(render: Render, cache: dict[str, str], volume: dict[str, Any]) -> None:
    """On a shared volume too: the directory's name is expanded by the kubelet, the mount path is fixed."""
    objects = render({"modelCache": cache})
    mounts = container(objects)["volumeMounts"]
    assert {"name": "model-cache", "mountPath": "/tmp/model_cache", "subPathExpr": "$(POD_NAME)"} in mounts
    assert {"name": "model-cache", **volume} in the(objects, "Deployment")["spec"]["template"]["spec"]["volumes"]
    pod_name = next(one for one in container(objects)["env"] if one["name"] == "POD_NAME")
    assert pod_name["valueFrom"] == {"fieldRef": {"fieldPath": "metadata.name"}}


def test_probes_ask_for_what_they_mean(render: Render) -> None:
    """Readiness asks for the loaded version; liveness does not kill a pod that can't load one."""
    found = container(render())
    assert found["readinessProbe"]["httpGet"]["path"] == "/health"
    assert found["livenessProbe"]["httpGet"]["path"] == found["startupProbe"]["httpGet"]["path"] == "/ping"


def test_a_gpu_is_asked_for_only_when_wanted(render: Render) -> None:
    """Zero by default; then requests equal limits, as Kubernetes demands, beside the other resources."""
    assert "nvidia.com/gpu" not in str(container(render())["resources"])
    resources = container(render({"gpus": 2}))["resources"]
    assert resources["limits"] == {"nvidia.com/gpu": 2, "memory": "2Gi"}
    assert resources["requests"]["nvidia.com/gpu"] == 2
    assert resources["requests"]["memory"] == "512Mi"


def test_the_autoscaler_owns_the_replicas(render: Render) -> None:
    """With it the Deployment names no number, or every helm upgrade would reset it."""
    objects = render({"autoscaling": {"enabled": True}})
    assert "replicas" not in the(objects, "Deployment")["spec"]
    assert the(objects, "HorizontalPodAutoscaler")["spec"]["scaleTargetRef"]["name"] == "mlflow-serve"


def test_the_network_policy_leaves_the_serving_port_open(render: Render) -> None:
    """Off by default; on, only port 5000."""
    assert "NetworkPolicy" not in {one["kind"] for one in render()}
    ingress = the(render({"networkPolicy": {"enabled": True}}), "NetworkPolicy")["spec"]["ingress"]
    assert ingress == [{"ports": [{"port": 5000, "protocol": "TCP"}]}]


def test_a_candidate_beside_the_tier_is_reached_and_gets_no_traffic(render: Render) -> None:
    """The network policy lets a release ask it; no Service, Deployment or disruption budget takes it for the tier's."""
    from airflow_provider_ragops.contract import ServingTarget
    from airflow_provider_ragops.rollout.candidate_pod import build

    objects = render({"networkPolicy": {"enabled": True}})
    found, service = the(objects, "Deployment"), the(objects, "Service")
    found["metadata"]["uid"] = "u"
    pod = build(found, service, ServingTarget("ml-serving", "M"), "2", 1, 60)

    def selects(selector: dict[str, str]) -> bool:
        return selector.items() <= pod["metadata"]["labels"].items()

    assert selects(the(objects, "NetworkPolicy")["spec"]["podSelector"]["matchLabels"])
    assert not selects(service["spec"]["selector"])
    assert not selects(found["spec"]["selector"]["matchLabels"])
    assert not selects(the(objects, "PodDisruptionBudget")["spec"]["selector"]["matchLabels"])


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
        ({"mlflow": {"trackingUri": "http://user:secret@mlflow:5000"}}, "trackingUri"),
        ({"mlflow": {"password": "secret"}}, "password"),
        ({"rollout": {"terminationGracePeriodSeconds": 10}}, "terminationGracePeriodSeconds"),
        ({"rollout": {"drainSeconds": 60}}, "requests in flight"),
        ({"rollout": {"minReadySeconds": 1}}, "minReadySeconds"),
        ({"gpus": -1}, "gpus"),
        ({"image": {"digest": "latest"}}, "digest"),
        ({"modelCache": {"hostPath": "relative"}}, "hostPath"),
        ({"modelCache": {"hostPath": "/a", "persistentVolumeClaim": "b"}}, "not both"),
        ({"extraEnv": [{"name": "MLFLOW_TRACKING_PASSWORD", "value": "secret"}]}, "extraEnv"),
        ({"service": {"port": 0}}, "port"),
    ],
)
def test_bad_values_are_refused_by_name(render: Render, values: dict[str, Any], named: str) -> None:
    """helm refuses before anything is sent, and names the value."""
    with pytest.raises(helm.HelmError, match=named):
        render(values)
