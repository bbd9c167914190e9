"""A serving pod's life as the chart describes it: start, probes, cache, end."""

from __future__ import annotations

from typing import Any

import helm_python as helm
import pytest

from airflow_provider_ragops.contract import ENV_MODEL_CACHE

from .conftest import SECRETS, Render, container, env, pod, the


def test_pods_are_replaced_one_by_one(render: Render) -> None:
    """R5: a new pod first, and time to ask it before the next one."""
    spec = the(render(), "Deployment")["spec"]
    assert spec["replicas"] == 2
    assert spec["strategy"] == {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    assert spec["minReadySeconds"] == 5


def test_a_leaving_pod_says_so_waits_and_clears(render: Render) -> None:
    """R5: the hook is the image's own program, with the times of the values; no shell to expand a name to nothing."""
    from airflow_provider_ragops.workloads.serving import leaving

    hook = container(render({"rollout": {"preStopSeconds": 7, "clearSeconds": 2}}))["lifecycle"]["preStop"]
    assert hook == {"exec": {"command": ["python", "-m", leaving.__name__, "7", "2"]}}
    assert {ENV_MODEL_CACHE, leaving.ENV_POD_NAME} <= env(render()).keys()
    assert "$(" not in str(hook)


def test_the_server_is_told_its_times(render: Render) -> None:
    """R5: longest request, drain and linger are the chart's, so that they fit into the grace period together."""
    found = env(render({"requestSeconds": 8, "rollout": {"drainSeconds": 12, "lingerSeconds": 3}}))
    assert {name: found[f"SERVING_{name}_SECONDS"]["value"] for name in ("REQUEST", "DRAIN", "LINGER")} == {
        "REQUEST": "8", "DRAIN": "12", "LINGER": "3",
    }


@pytest.mark.parametrize("values", [
    {}, {"rollout": {"preStopSeconds": 6, "terminationGracePeriodSeconds": 35}}, {"requestSeconds": 23},
    {"requestSeconds": 300, "rollout": {"drainSeconds": 310, "terminationGracePeriodSeconds": 330}},
    {"rollout": {"preStopSeconds": 15, "terminationGracePeriodSeconds": 60}},
])  # fmt: skip
def test_a_grace_period_that_is_long_enough_is_taken(render: Render, values: dict[str, Any]) -> None:
    """R5, R6: by the chart, and by a release, which refuses to roll a template whose pods can't end in peace."""
    from airflow_provider_ragops.rollout.shutdown import template_fault

    found = the(render(values), "Deployment")
    assert template_fault(found) == ""
    found["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = 5
    assert "container mlflow-serve sleeps" in template_fault(found)


@pytest.mark.parametrize(("values", "numbers"), [
    ({"rollout": {"preStopSeconds": 12}}, ["preStopSeconds (12)", "= 40 s", "terminationGracePeriodSeconds (40)"]),
    ({"rollout": {"drainSeconds": 60}}, ["drainSeconds (60)", "= 68 s", "terminationGracePeriodSeconds (40)"]),
    ({"rollout": {"terminationGracePeriodSeconds": 33}}, ["= 33 s", "terminationGracePeriodSeconds (33)"]),
    ({"rollout": {"terminationGracePeriodSeconds": 29}}, ["terminationGracePeriodSeconds", "got 29, want 30"]),
    ({"requestSeconds": 24}, ["requestSeconds (24)", "= 26 s", "drainSeconds (25)"]),
    ({"rollout": {"lingerSeconds": 16}}, ["lingerSeconds (16)", "= 26 s", "drainSeconds (25)"]),
])  # fmt: skip
def test_one_that_would_cut_a_request_is_refused(render: Render, values: dict[str, Any], numbers: list[str]) -> None:
    """R5, R6: the refusal says which numbers do not fit."""
    with pytest.raises(helm.HelmError) as refused:
        render(values)
    for number in numbers:
        assert number in str(refused.value)


def test_probes_ask_for_what_they_mean(render: Render) -> None:
    """R5: started within a second of it; ready by the loaded version; alive whatever became of the model."""
    found = container(render({"rollout": {"startupSeconds": 300}}))
    startup, ready, alive = (found[f"{name}Probe"] for name in ("startup", "readiness", "liveness"))
    assert startup["httpGet"]["path"] == alive["httpGet"]["path"] == "/health/live"
    assert ready["httpGet"]["path"] == "/health"
    assert (startup["periodSeconds"], startup["failureThreshold"]) == (1, 300)
    assert "initialDelaySeconds" not in str(found)


def test_a_leaving_pod_is_seen_unready_before_it_stops(render: Render) -> None:
    """R5: where only the container ends (its liveness), nobody but the readiness probe takes it out of the Service."""
    ready = container(render())["readinessProbe"]
    assert ready["periodSeconds"] * ready["failureThreshold"] < 5
    assert ready["timeoutSeconds"] <= 2


def test_liveness_is_slower_than_readiness(render: Render) -> None:
    """A busy pod is first spared requests and only much later killed."""
    found = container(render())
    ready, alive = found["readinessProbe"], found["livenessProbe"]
    assert alive["periodSeconds"] * alive["failureThreshold"] >= 60
    assert ready["failureThreshold"] * (ready["periodSeconds"] + ready["timeoutSeconds"]) < 10


def test_pods_run_without_rights(render: Render) -> None:
    """Non-root, nothing writable but /tmp and the cache, no capabilities, no token."""
    found = pod(render())
    assert found["automountServiceAccountToken"] is False
    assert found["securityContext"]["runAsNonRoot"] is True
    assert found["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
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
    assert {"name": "model-cache", **volume} in pod(objects)["volumes"]
    assert env(objects)["POD_NAME"]["valueFrom"] == {"fieldRef": {"fieldPath": "metadata.name"}}
    assert env(objects)["MODEL_CACHE_DIR"]["value"] == "/tmp/model_cache"


def test_a_gpu_is_asked_for_only_when_wanted(render: Render) -> None:
    """Zero by default; then requests equal limits, as Kubernetes demands, beside the other resources."""
    assert "nvidia.com/gpu" not in str(container(render())["resources"])
    resources = container(render({"gpus": 2}))["resources"]
    assert resources["limits"] == {"nvidia.com/gpu": "2", "memory": "2Gi"}
    assert resources["requests"]["nvidia.com/gpu"] == "2"
    assert resources["requests"]["memory"] == "512Mi"


def test_a_gpu_comes_with_shared_memory(render: Render) -> None:
    """A container's own /dev/shm has 64 MiB; without a GPU nothing is mounted there."""
    assert "/dev/shm" not in str(pod(render()))
    objects = render({"gpus": 1, "shmSize": "2Gi"})
    assert {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "2Gi"}} in pod(objects)["volumes"]
    assert {"name": "shm", "mountPath": "/dev/shm"} in container(objects)["volumeMounts"]


def test_certificates_are_mounted_from_secrets(render: Render) -> None:
    """Authorities and the pods' own certificate: each a Secret, its files, and the variables that name them."""
    objects = render(SECRETS)
    files = {
        "MLFLOW_TRACKING_SERVER_CERT_PATH": "mlflow-ca/ca.crt", "REDIS_CA_FILE": "redis-ca/ca.crt",
        "REDIS_CERT_FILE": "redis-client/tls.crt", "REDIS_KEY_FILE": "redis-client/tls.key",
    }
    for variable, file in files.items():
        secret = file.partition("/")[0]
        assert {"name": secret, "secret": {"secretName": secret}} in pod(objects)["volumes"]
        assert {"name": secret, "mountPath": f"/etc/{secret}", "readOnly": True} in container(objects)["volumeMounts"]
        assert env(objects)[variable]["value"] == f"/etc/{file}"
        assert variable not in env(render())


def test_the_cache_is_told_how_to_reach_redis(render: Render) -> None:
    """Cluster, prefix, what Redis may cost and keep; without a Secret no Redis at all."""
    redis = {"secret": "r", "cluster": True, "prefix": "shop:", "budgetMilliseconds": 20, "ttlSeconds": 2592000}
    found = env(render({"redis": redis}))
    told = {name[6:]: one["value"] for name, one in found.items() if name.startswith("REDIS_") and "value" in one}
    assert told == {
        "CLUSTER": "true", "PREFIX": "shop:", "BUDGET_MS": "20", "TTL_SECONDS": "2592000", "MAY_EVICT": "false",
    }
    assert not [name for name in env(render()) if "REDIS" in name]
