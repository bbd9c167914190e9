"""What stands around the pods: autoscaler, network policy, ingress, disruption budget."""

from __future__ import annotations

from typing import Any

import pytest

from .conftest import Render, kinds, the


def test_the_autoscaler_owns_the_replicas(render: Render) -> None:
    """With it the Deployment names no number, or every helm upgrade would reset it."""
    objects = render({"autoscaling": {"enabled": True}})
    assert "replicas" not in the(objects, "Deployment")["spec"]
    scaler = the(objects, "HorizontalPodAutoscaler")["spec"]
    assert scaler["scaleTargetRef"]["name"] == "mlflow-serve"
    target = {"type": "Utilization", "averageUtilization": 80}
    assert scaler["metrics"] == [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]


def test_the_autoscaler_may_follow_a_metric_of_the_pods(render: Render) -> None:
    """For example a GPU's use, by the name that the cluster's adapter gives it; in whole units, not in thousandths."""
    metric = {"name": "DCGM_FI_DEV_GPU_UTIL", "averageValue": "75"}
    scaler = the(render({"autoscaling": {"enabled": True, "podMetric": metric}}), "HorizontalPodAutoscaler")
    target = {"type": "AverageValue", "averageValue": "75"}
    pods = {"metric": {"name": metric["name"]}, "target": target}
    assert scaler["spec"]["metrics"] == [{"type": "Pods", "pods": pods}]


def test_the_network_policy_leaves_the_serving_port_open(render: Render) -> None:
    """Off by default; on, only port 5000, and every way out."""
    assert "NetworkPolicy" not in kinds(render())
    spec = the(render({"networkPolicy": {"enabled": True}}), "NetworkPolicy")["spec"]
    assert spec["ingress"] == [{"ports": [{"port": 5000, "protocol": "TCP"}]}]
    assert spec["policyTypes"] == ["Ingress"]
    assert "egress" not in spec


def ports(rule: dict[str, Any]) -> list[int]:
    return [one["port"] for one in rule["ports"]]


def test_the_way_out_can_be_narrowed(render: Render) -> None:
    """DNS, MLflow, and Redis where there is one; whatever else a team names."""
    peer = {"podSelector": {"matchLabels": {"app": "redis"}}}
    extra = {"to": [{"ipBlock": {"cidr": "10.1.0.0/16"}}], "ports": [{"port": 443, "protocol": "TCP"}]}
    egress = {"enabled": True, "redis": {"ports": [6380], "to": [peer]}, "extra": [extra]}
    spec = the(render({"networkPolicy": {"enabled": True, "egress": egress}}), "NetworkPolicy")["spec"]
    assert spec["policyTypes"] == ["Ingress", "Egress"]
    assert [ports(rule) for rule in spec["egress"]] == [[53, 53], [5000], [443]]
    assert [one["protocol"] for one in spec["egress"][0]["ports"]] == ["UDP", "TCP"]
    values = {"networkPolicy": {"enabled": True, "egress": egress}, "redis": {"secret": "redis-login"}}
    rules = the(render(values), "NetworkPolicy")["spec"]["egress"]
    assert [ports(rule) for rule in rules] == [[53, 53], [5000], [6380], [443]]
    assert rules[2]["to"] == [peer]
    assert "to" not in rules[1]


def test_a_candidate_beside_the_tier_is_reached_and_gets_no_traffic(render: Render) -> None:
    """The network policy lets a release ask it; no Service, Deployment, monitor or budget takes it for the tier's."""
    from airflow_provider_ragops.contract import ServingTarget
    from airflow_provider_ragops.rollout.candidate_pod import build

    objects = render({"networkPolicy": {"enabled": True}, "monitoring": {"assumeApi": True, "podMonitor": True}})
    found, service = the(objects, "Deployment"), the(objects, "Service")
    found["metadata"]["uid"] = "u"
    pod = build(found, service, ServingTarget("ml-serving", "M"), "2", 1, 60)

    def selects(selector: dict[str, str]) -> bool:
        return selector.items() <= pod["metadata"]["labels"].items()

    assert selects(the(objects, "NetworkPolicy")["spec"]["podSelector"]["matchLabels"])
    assert not selects(service["spec"]["selector"])
    for kind in ("Deployment", "PodDisruptionBudget", "PodMonitor"):
        assert not selects(the(objects, kind)["spec"]["selector"]["matchLabels"])


def test_the_ingress_shows_the_answers_and_nothing_else(render: Render) -> None:
    """Off by default; on, /invocations alone, so that metrics stay inside."""
    assert "Ingress" not in kinds(render())
    rule = the(render({"ingress": {"enabled": True}}), "Ingress")["spec"]["rules"][0]
    backend = {"service": {"name": "mlflow-serve", "port": {"name": "http"}}}
    assert rule == {"http": {"paths": [{"path": "/invocations", "pathType": "Prefix", "backend": backend}]}}
    assert [port["name"] for port in the(render(), "Service")["spec"]["ports"]] == ["http"]


def test_the_ingress_has_its_certificate_from_a_secret(render: Render) -> None:
    """Class, host and the name of the Secret."""
    values = {"enabled": True, "host": "m.example", "className": "nginx", "tlsSecret": "cert"}
    spec = the(render({"ingress": values}), "Ingress")["spec"]
    assert (spec["ingressClassName"], spec["rules"][0]["host"]) == ("nginx", "m.example")
    assert spec["tls"] == [{"secretName": "cert", "hosts": ["m.example"]}]


@pytest.mark.parametrize("monitoring", [{"podMonitor": True}, {"rules": True}])
def test_monitoring_is_left_out_where_the_cluster_has_no_operator(render: Render, monitoring: dict[str, bool]) -> None:
    """Kubernetes alone does not know these kinds; an install would fail on them."""
    assert kinds(render({"monitoring": monitoring})) == kinds(render())
    assert len(kinds(render({"monitoring": {**monitoring, "assumeApi": True}}))) == len(kinds(render())) + 1


def test_the_pods_metrics_are_found(render: Render) -> None:
    """The monitor selects the tier's pods, carries the labels by which Prometheus chooses, and asks the right port."""
    values = {"assumeApi": True, "podMonitor": True, "labels": {"release": "prometheus"}, "intervalSeconds": 30}
    objects = render({"monitoring": values})
    monitor = the(objects, "PodMonitor")
    assert monitor["metadata"]["labels"]["release"] == "prometheus"
    labels = the(objects, "Deployment")["spec"]["template"]["metadata"]["labels"]
    assert monitor["spec"]["selector"]["matchLabels"].items() <= labels.items()
    assert monitor["spec"]["podMetricsEndpoints"] == [{"port": "http", "path": "/metrics", "interval": "30s"}]
