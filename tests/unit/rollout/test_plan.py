"""The change as data: what one write sets, and what it leaves alone."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from airflow_provider_ragops.contract import ANNOTATION_RELEASE, ServingTarget
from airflow_provider_ragops.exceptions import TargetError
from airflow_provider_ragops.rollout.plan import (
    DRAIN,
    MAKE_ROOM,
    USUAL,
    Change,
    Strategy,
    apply,
    gap,
    strategy_of,
)

TARGET = ServingTarget("ml", "M", deployment="serve", container="serve")


def deployment(env: list[dict[str, str]] | None = None, **spec: Any) -> dict[str, Any]:
    containers = [{"name": "sidecar"}, {"name": "serve", "env": env}]
    template = {"metadata": {"labels": {"app": "serve"}}, "spec": {"containers": containers}}
    return {
        "metadata": {"name": "serve", "resourceVersion": "7", "annotations": {"owner": "someone"}},
        "spec": {"template": template, **spec},
    }


def template(found: dict[str, Any]) -> dict[str, Any]:
    return dict(found["spec"]["template"])


def test_version_and_record_change_in_one_write() -> None:
    """The record lies outside the template, the resourceVersion stays for compare-and-swap, the rest is untouched."""
    found = deployment([{"name": "MODEL_NAME", "value": "M"}], replicas=3)
    before = copy.deepcopy(found)
    body = apply(found, Change("{}", "2"), TARGET)
    assert found == before
    assert body["metadata"]["annotations"] == {"owner": "someone", ANNOTATION_RELEASE: "{}"}
    assert body["metadata"]["resourceVersion"] == "7"
    assert body["spec"]["replicas"] == 3
    assert template(body)["spec"]["containers"][1]["env"][-1] == {"name": "MODEL_VERSION", "value": "2"}
    assert template(body)["metadata"] == {"labels": {"app": "serve"}}


def test_record_alone_leaves_spec_as_it_is() -> None:
    """A seal restarts no pod and does not touch the strategy of a rollout that is under way."""
    found = deployment([{"name": "MODEL_VERSION", "value": "1"}])
    assert apply(found, Change("{}"), TARGET)["spec"] == found["spec"]


@pytest.mark.parametrize("at", [0, 1, 2])
def test_equal_version_leaves_an_equal_template(at: int) -> None:
    """R13: writing the version that is there, wherever it stands in the list, makes no new ReplicaSet."""
    env = [{"name": "A", "value": "a"}, {"name": "B", "value": "b"}]
    env.insert(at, {"name": "MODEL_VERSION", "value": "2"})
    found = deployment(env)
    assert template(apply(found, Change("{}", "2"), TARGET)) == template(found)


def test_version_named_twice_is_named_once() -> None:
    """Kubernetes takes the last of two equal names: one that stays behind would win over ours."""
    found = deployment([{"name": "MODEL_VERSION", "value": "1"}, {"name": "MODEL_VERSION", "value": "9"}])
    assert template(apply(found, Change("{}", "2"), TARGET))["spec"]["containers"][1]["env"] == [
        {"name": "MODEL_VERSION", "value": "2"},
    ]


def test_way_back_needs_no_history() -> None:
    """R3, R14: v1 good, v2 stuck, v3 bad; the template of v1 comes from the version alone, not from old ReplicaSets."""
    first = apply(deployment([{"name": "A", "value": "a"}], revisionHistoryLimit=0), Change("{}", "1"), TARGET)
    third = apply(apply(first, Change("{}", "2"), TARGET), Change("{}", "3"), TARGET)
    assert template(apply(third, Change("{}", "1"), TARGET)) == template(first)


def test_no_version_takes_the_variable_away() -> None:
    """Before a first release there is no version to go back to."""
    first = deployment([{"name": "A", "value": "a"}])
    there = apply(apply(first, Change("{}", "1"), TARGET), Change("{}", "", strategy=DRAIN), TARGET)
    assert template(there) == template(first)
    assert strategy_of(there) == DRAIN


@pytest.mark.parametrize(("strategy", "written"), [
    (USUAL, {"maxSurge": 1, "maxUnavailable": 0}), (MAKE_ROOM, {"maxSurge": 0, "maxUnavailable": 1}),
    (Strategy(1, 1), {"maxSurge": 1, "maxUnavailable": 1}),
])  # fmt: skip
def test_strategy_is_written_and_read_back(strategy: Strategy, written: dict[str, int]) -> None:
    """R9: with no room one pod goes first; the usual one comes back with a write of the same version, which moves no
    pod."""
    found = deployment([{"name": "MODEL_VERSION", "value": "1"}], strategy={"type": "Recreate"})
    body = apply(found, Change("{}", "2", strategy=strategy), TARGET)
    assert body["spec"]["strategy"] == {"type": "RollingUpdate", "rollingUpdate": written}
    assert strategy_of(body) == strategy
    restored = apply(body, Change("{}", "2"), TARGET)
    assert (strategy_of(restored), template(restored)) == (USUAL, template(body))


@pytest.mark.parametrize("spec", [{}, {"strategy": None}, {"strategy": {"type": "Recreate"}}])
def test_deployment_without_a_rolling_strategy(spec: dict[str, Any]) -> None:
    """What names none is rolled in the usual way."""
    assert strategy_of(deployment(**spec)) == USUAL


@pytest.mark.parametrize(("strategy", "desired", "words"), [
    (USUAL, 1, ""), (MAKE_ROOM, 1, "NOBODY serves"), (MAKE_ROOM, 3, "2 of 3 pods serve"), (Strategy(1, 1), 1, ""),
])  # fmt: skip
def test_gap_in_service_is_said(strategy: Strategy, desired: int, words: str) -> None:
    """R9: a release that takes a pod away first says what that costs; with one replica nobody serves meanwhile."""
    assert words in gap(strategy, desired)
    assert bool(gap(strategy, desired)) is bool(words)


@pytest.mark.parametrize(("there", "written"), [(None, 5), (0, 5), (30, 30)])
def test_pods_get_time_to_be_asked(there: int | None, written: int) -> None:
    """At least five seconds between a pod's Ready and the next step; more stays more."""
    found = deployment(minReadySeconds=there) if there is not None else deployment()
    assert apply(found, Change("{}", "2"), TARGET)["spec"]["minReadySeconds"] == written


def test_missing_container_is_named() -> None:
    """The error says which containers there are."""
    target = ServingTarget("ml", "M", deployment="serve", container="other")
    with pytest.raises(TargetError, match=r"'other'; saw sidecar, serve"):
        apply(deployment(), Change("{}", "2"), target)
