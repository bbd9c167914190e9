"""What the demo decides without touching anything: the cluster, the partitions, whether all fits together."""

from __future__ import annotations

import json
import os
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from demo import cluster as clusters
from demo.pipeline import good_days
from demo.services import connections
from demo.settings import Settings
from demo.summary import faults


def summary(**changes: Any) -> dict[str, Any]:
    """A summary in which everything fits."""
    good = {
        "alias": "3", "deployment_version": "3", "pod_versions": {"a": "3", "b": "3"},
        "rollouts": 1, "rejections": 2, "online_row": {"user_id": 7, "tenure_days": 1.0},
    }
    return good | changes


def test_a_summary_that_fits_has_no_faults() -> None:
    """Alias, Deployment and all pods agree, a rollout and two refusals took place, the online row is whole."""
    assert faults(summary()) == []


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"deployment_version": "2"}, "the Deployment 2"),
        ({"pod_versions": {"a": "3", "b": "2"}}, "'b': '2'"),
        ({"pod_versions": {}}, "there are none"),
        ({"rollouts": 0}, "no rolling update"),
        ({"rejections": 1}, "1 of 2 refusals"),
        ({"online_row": {"user_id": 7, "tenure_days": None}}, "missing values"),
    ],
)
def test_what_does_not_fit_is_told(changes: dict[str, Any], told: str) -> None:
    """Each disagreement is one fault of its own, in words."""
    found = faults(summary(**changes))
    assert len(found) == 1
    assert told in found[0]


def test_good_days_end_with_the_newest_and_lie_30_days_apart() -> None:
    """Oldest first, so that each release is newer than the one before."""
    days = [date(2026, 1, 1), date(2026, 11, 24)]
    assert good_days(days, 3) == [date(2026, 9, 25), date(2026, 10, 25), date(2026, 11, 24)]


def test_a_named_kubeconfig_wins(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Any cluster that the user names is used, and never taken down."""
    monkeypatch.setattr(clusters, "OURS", tmp_path / "no-mark")
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    assert clusters.choose() == "given"
    assert clusters.kubeconfig_of("given") == tmp_path / "config"
    assert clusters.down() is False


def test_the_local_node_named_by_kubeconfig_is_still_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    """`KUBECONFIG` may be left set to the local node's own file."""
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setenv("KUBECONFIG", str(clusters.kubeconfig_of("local")))
    assert clusters.choose() != "given"


def test_kind_needs_a_docker_engine_that_answers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """`kind` alone, or a docker that fails, means the local node; a docker that answers means kind."""
    monkeypatch.delenv("KUBECONFIG", raising=False)
    for name, code in (("kind", 0), ("docker", 1)):
        (tmp_path / name).write_text(f"#!/bin/sh\nexit {code}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert clusters.choose() == "local"
    (tmp_path / "docker").write_text("#!/bin/sh\nexit 0\n")
    assert clusters.choose() == "kind"


def test_the_cluster_that_the_mark_names_is_taken_down(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A `KUBECONFIG` that was set later does not keep what was brought up here from going down."""
    monkeypatch.setattr(clusters, "OURS", tmp_path / "mark")
    monkeypatch.setattr(clusters, "SCRIPTS", tmp_path)
    monkeypatch.setattr(clusters, "CLUSTER_LOGS", tmp_path)
    (tmp_path / "down.sh").write_text(f"#!/bin/sh\ntouch {tmp_path}/was-called\n")
    (tmp_path / "down.sh").chmod(0o755)
    (tmp_path / "mark").write_text("local")
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "another"))
    assert clusters.down(only_ours=True) is True
    assert (tmp_path / "was-called").exists()
    assert clusters.ours() is None


@pytest.mark.parametrize(
    ("upper", "lower", "told"),
    [
        (None, None, "127.0.0.1,localhost,10.231.0.1"),
        ("corp.test", "localhost, corp.test", "corp.test,localhost,127.0.0.1,10.231.0.1"),
        ("*", None, "*"),
    ],
)
def test_the_node_is_not_behind_the_proxy(
    monkeypatch: pytest.MonkeyPatch, upper: str | None, lower: str | None, told: str
) -> None:
    """What the machine exempts already stays exempt, and both spellings say the same."""
    for name, value in (("NO_PROXY", upper), ("no_proxy", lower)):
        monkeypatch.setenv(name, value or "")
    clusters.bypass_proxies("10.231.0.1")
    assert os.environ["NO_PROXY"] == os.environ["no_proxy"] == told


@pytest.mark.parametrize(("kind", "told"), [("local", ""), ("kind", "MLflow and Valkey"), ("given", "10.0.0.5")])
def test_services_without_a_login_are_told(kind: str, told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the local node's address exists on this machine alone."""
    monkeypatch.delenv("REDIS_URL", raising=False)
    exposure = Settings.of(clusters.Cluster(kind, Path("config"), "10.0.0.5")).exposure
    assert told in exposure
    assert bool(exposure) is bool(told)


def test_the_password_of_redis_is_in_two_connections_alone(tmp_path: Path) -> None:
    """Airflow reads the connections from the environment, as JSON; the other two never see the password."""
    url = "rediss://:canary@h:1/0"
    feast = {"repo": "dags/churn/features", "registry_url": "sqlite:////r.db", "redis_url": url}
    found = connections("http://h:5000", tmp_path / "kubeconfig", feast)
    assert set(found) == {f"AIRFLOW_CONN_{kind}_DEFAULT" for kind in ("MLFLOW", "KUBERNETES", "FEAST", "REDIS")}
    told = [name for name, value in found.items() if "canary" in value]
    assert told == ["AIRFLOW_CONN_FEAST_DEFAULT", "AIRFLOW_CONN_REDIS_DEFAULT"]
    assert json.loads(found["AIRFLOW_CONN_REDIS_DEFAULT"]) == {
        "conn_type": "redis", "host": "h", "port": 1, "password": "canary", "schema": "0", "extra": {"ssl": True},
    }
    assert json.loads(found["AIRFLOW_CONN_FEAST_DEFAULT"])["extra"]["redis_url"] == url
