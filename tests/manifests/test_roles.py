"""Who may do what: the whole of every Role, so that a right added by mistake is seen."""

from __future__ import annotations

from typing import Any

import pytest

from .conftest import Render, the

READ = ["get", "list", "watch"]
EVENTS = (("", "events.k8s.io"), ("events",), (), READ)


def rules(role: dict[str, Any]) -> list[Any]:
    return sorted(
        (tuple(rule["apiGroups"]), tuple(rule["resources"]), tuple(rule.get("resourceNames", ())), rule["verbs"])
        for rule in role["rules"]
    )


def test_a_release_may_change_one_deployment_and_one_lock(render: Render) -> None:
    """Writes are limited by name wherever Kubernetes can; nothing reads Secrets or executes.

    Pods are created and deleted without a name, which says version and token: RBAC compares whole names only.
    """
    assert rules(the(render(), "Role", "ragops-releaser-mlflow-serve")) == sorted([
        (("apps",), ("deployments",), ("mlflow-serve",), ["get", "update", "patch"]),
        (("apps",), ("deployments", "replicasets"), (), READ),
        (("",), ("pods",), (), [*READ, "create", "delete"]),
        (("",), ("resourcequotas",), (), ["list"]),
        (("",), ("pods/log",), (), ["get"]),
        (("",), ("pods/proxy",), (), ["get", "create"]),
        (("",), ("services",), ("mlflow-serve",), ["get"]),
        (
            ("",), ("services/proxy",), ("mlflow-serve", "mlflow-serve:http", "mlflow-serve:5000"),
            ["get", "create"],
        ),
        (("",), ("configmaps",), ("mlflow-serve-release-lock",), ["get", "watch", "update", "patch"]),
        (("",), ("configmaps",), (), ["create"]),
        EVENTS,
    ])


def test_a_training_task_may_run_pods_in_its_namespace(render: Render) -> None:
    """What KubernetesPodOperator needs without an XCom sidecar: no pods/exec, no Secrets."""
    role = the(render(), "Role", "ragops-pod-runner")
    assert role["metadata"]["namespace"] == "ml-workloads"
    assert rules(role) == sorted([
        (("",), ("pods",), (), ["create", "get", "list", "watch", "patch", "delete"]),
        (("",), ("pods/log",), (), ["get"]),
        EVENTS,
    ])


def test_the_lock_has_the_name_that_the_package_uses(render: Render) -> None:
    """The chart can't import contract.py: this keeps both names one."""
    from airflow_provider_ragops.contract import ServingTarget

    target = ServingTarget("ml-serving", "M", deployment="other-serve", container="other-serve")
    named = the(render({"name": "other-serve"}), "Role", "ragops-releaser-other-serve")
    assert target.lock_name in [name for _, _, names, _ in rules(named) for name in names]


def test_both_roles_are_bound_to_the_releaser_only(render: Render) -> None:
    """Pods have identities without any right; further subjects are named by the installer."""
    releaser = {"kind": "ServiceAccount", "name": "ragops-releaser", "namespace": "ml-serving"}
    airflow = {"kind": "ServiceAccount", "name": "airflow-worker", "namespace": "airflow"}
    for name in ("ragops-releaser-mlflow-serve", "ragops-pod-runner"):
        assert the(render(), "RoleBinding", name)["subjects"] == [releaser]
        more = render({"releaser": {"subjects": [airflow]}})
        assert the(more, "RoleBinding", name)["subjects"] == [releaser, airflow]


def test_nothing_reaches_beyond_its_namespace_unless_asked(render: Render) -> None:
    """Reading nodes, to say whether pods fit, is off by default; then it only reads."""
    assert not [one for one in render() if one["kind"].startswith("Cluster")]
    asked = render({"releaser": {"nodeReader": True}})
    role = the(asked, "ClusterRole")
    assert rules(role) == [(("",), ("nodes",), (), ["get", "list"]), (("",), ("pods",), (), ["list"])]
    assert the(asked, "ClusterRoleBinding")["roleRef"]["name"] == role["metadata"]["name"]


@pytest.mark.parametrize(("name", "namespace"), [("mlflow-serve", "ml-serving"), ("ragops-trainer", "ml-workloads")])
def test_pods_get_no_token(render: Render, name: str, namespace: str) -> None:
    """A model is foreign code: its pod holds no credential of the cluster."""
    account = the(render(), "ServiceAccount", name)
    assert account["metadata"]["namespace"] == namespace
    assert account["automountServiceAccountToken"] is False


def test_identities_can_be_left_to_the_installer(render: Render) -> None:
    """A second serving target in the namespace, or a cluster where Roles are someone else's work."""
    kinds = {one["kind"] for one in render({"releaser": {"create": False}, "training": {"create": False}})}
    assert kinds == {"Deployment", "Service", "ServiceAccount", "PodDisruptionBudget"}
