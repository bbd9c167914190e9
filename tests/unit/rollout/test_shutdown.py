"""Templates whose pods could not end in peace."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_ragops.rollout.shutdown import template_fault


def deployment(pre_stop: dict[str, Any] | None, grace: int | None = 40) -> dict[str, Any]:
    lifecycle = {"preStop": pre_stop} if pre_stop is not None else None
    spec = {"terminationGracePeriodSeconds": grace, "containers": [{"name": "serve", "lifecycle": lifecycle}]}
    return {"spec": {"template": {"spec": spec}}}


def shell(script: str) -> dict[str, Any]:
    return {"exec": {"command": ["/bin/sh", "-c", script]}}


@pytest.mark.parametrize(("pre_stop", "grace"), [
    (shell("sleep 40"), 40), (shell("sleep 41"), 40), (shell("echo bye; sleep 1m"), 40),
    ({"sleep": {"seconds": 40}}, 40), ({"exec": {"command": ["sleep", "30"]}}, None),
    (shell("sleep 20 && sleep 20"), 40), (shell("sleep 0.5"), 0),
    ({"exec": {"command": ["python", "-m", "airflow_provider_ragops.workloads.serving.leaving", "40", "3"]}}, 40),
])  # fmt: skip
def test_hook_as_long_as_the_grace_period_is_a_fault(pre_stop: dict[str, Any], grace: int | None) -> None:
    """R6: the server would be killed with its requests in flight; the reason names container and both numbers."""
    fault = template_fault(deployment(pre_stop, grace))
    assert "container serve sleeps" in fault
    assert f"of {30 if grace is None else grace} s" in fault


@pytest.mark.parametrize("pre_stop", [
    None, {}, shell("sleep 5"), shell("sleep 39.5"), {"sleep": {"seconds": 5}}, {"httpGet": {"path": "/stop"}},
    shell("/app/drain.sh"), shell("oversleep 99"), {"exec": {"command": None}},
    {"exec": {"command": ["python", "-m", "airflow_provider_ragops.workloads.serving.leaving", "39", "3"]}},
])  # fmt: skip
def test_what_is_not_known_to_be_too_long_passes(pre_stop: dict[str, Any] | None) -> None:
    """R6: a shorter sleep, no hook, or one that does not say how long it takes."""
    assert template_fault(deployment(pre_stop)) == ""


def test_every_container_is_looked_at() -> None:
    """R6: a sidecar that sleeps through the grace period takes the server with it."""
    found = deployment(shell("sleep 5"))
    sidecar = {"name": "proxy", "lifecycle": {"preStop": shell("sleep 60")}}
    found["spec"]["template"]["spec"]["containers"].append(sidecar)
    assert "container proxy sleeps 60 s" in template_fault(found)
