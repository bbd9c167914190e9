"""The three alerts, evaluated by Prometheus itself on series as the pods give them."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from .conftest import Render, the
from .prometheus import STEP, Scenario, find_promtool

MODEL = "rag-retriever"
LATENCY = "mlflow_inference_latency_seconds"
HOUR = 3600 // STEP
Make = Callable[..., Scenario]


@pytest.fixture(scope="session")
def promtool(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return find_promtool(tmp_path_factory.mktemp("prometheus"))


@pytest.fixture
def scenario(promtool: Path, render: Render, tmp_path: Path) -> Make:
    """``scenario(**monitoring)`` → one with the chart's rules, and no series yet."""
    def make(**monitoring: Any) -> Scenario:
        values = {"monitoring": {"rules": True, "assumeApi": True, **monitoring}}
        return Scenario(promtool, tmp_path, the(render(values), "PrometheusRule")["spec"]["groups"])

    return make


def cached(found: Scenario, values: str, *, version: str = "2", outcome: str = "mismatch", **labels: str) -> None:
    found.add("mlflow_serving_cache_total", values, model_name=MODEL, model_version=version, outcome=outcome,
              layer="decomposition", **{"pod": "a", **labels})


def served(found: Scenario, version: str, seconds: float, *, begins: int = 0, ends: int = 4 * HOUR) -> None:
    """Fifteen requests between two scrapes, each of so many seconds, from one scrape to another."""
    before = [f"_x{begins}"] if begins else []
    for kind, each in (("sum", seconds * 15), ("count", 15)):
        found.add(f"{LATENCY}_{kind}", *before, f"0+{each:g}x{ends - begins}", model_name=MODEL,
                  model_version=version, pod=f"pod-{version}")


def test_the_rules_are_prometheus_own(promtool: Path, render: Render, tmp_path: Path) -> None:
    """promtool takes them, and finds nothing to complain about; a slip in an expression it would refuse."""
    values = {"monitoring": {"rules": True, "assumeApi": True}}
    groups = the(render(values), "PrometheusRule")["spec"]["groups"]
    assert [rule.get("alert") or rule["record"] for group in groups for rule in group["rules"]] == [
        f"ragops_version:{LATENCY}:mean5m", "RagCacheMismatch", "RagLatencyAfterVersionChange", "RagCacheKeyGrowth",
    ]

    def check(given: list[dict[str, Any]]) -> int:
        file = tmp_path / "rules.yaml"
        file.write_text(yaml.safe_dump({"groups": given}))
        return subprocess.run([promtool, "check", "rules", file], capture_output=True, timeout=60).returncode

    assert check(groups) == 0
    groups[0]["rules"][1]["expr"] += ")"
    assert check(groups) != 0


def test_prometheus_would_see_a_wrong_expectation(scenario: Make) -> None:
    """Control of the tests below."""
    found = scenario()
    cached(found, "0x40")
    found.expect(5, "RagCacheMismatch", "2")
    assert "RagCacheMismatch" in found.disagreement()


def test_a_mismatch_is_told_within_a_scrape(scenario: Make) -> None:
    """C7: nothing while none is seen; at once when one is, for the version that saw it; over 5 minutes after."""
    found = scenario()
    cached(found, "0x40 3x80")
    cached(found, "0x120", version="1")
    cached(found, "0+9x120", version="1", outcome="miss")
    found.expect(9, "RagCacheMismatch")
    found.expect(10.5, "RagCacheMismatch", "2")
    found.expect(14, "RagCacheMismatch", "2")
    found.expect(16, "RagCacheMismatch")
    assert found.disagreement() == ""


def test_the_first_mismatch_of_a_pod_is_told(scenario: Make) -> None:
    """C7: the counter appears with its first count, of which increase() says nothing."""
    found = scenario()
    cached(found, "_x40 1x80")
    found.expect(9, "RagCacheMismatch")
    found.expect(10.5, "RagCacheMismatch", "2")
    found.expect(16, "RagCacheMismatch")
    assert found.disagreement() == ""


@pytest.mark.parametrize(("code", "tells"), [
    ("embedding_dimension_mismatch", True), ("tokenizer_mismatch", True), ("model_version_not_found", False),
    ("overloaded", False),
])  # fmt: skip
def test_requests_that_failed_for_another_version_are_told(scenario: Make, code: str, tells: bool) -> None:
    """C7: the incident's own errors; not a client that pinned a version which is not served."""
    found = scenario()
    found.add("mlflow_inference_errors_total", "0x40 1+1x40", model_name=MODEL, model_version="2", code=code, pod="a")
    found.expect(12, "RagCacheMismatch", *(["2"] if tells else []))
    assert found.disagreement() == ""


@pytest.mark.parametrize("foreign", [{"namespace": "ml-staging"}, {"container": "churn-serve"}])
def test_another_tiers_trouble_is_not_this_ones(scenario: Make, foreign: dict[str, str]) -> None:
    """One Prometheus sees staging and production, which serve the same model."""
    found = scenario(expectedKeys=10)
    cached(found, "0+1x120", **foreign)
    found.add("rag_cache_keys", "500x120", model_name=MODEL, model_version="2", **foreign)
    found.expect(20, "RagCacheMismatch")
    found.expect(20, "RagCacheKeyGrowth")
    assert found.disagreement() == ""


def test_a_new_version_twice_as_slow_is_told_for_an_hour(scenario: Make) -> None:
    """From a few minutes after it began to serve until it has become what the next one is compared with."""
    found = scenario()
    served(found, "1", 0.2, ends=2 * HOUR + 40)
    served(found, "2", 0.5, begins=2 * HOUR)
    found.expect(119, "RagLatencyAfterVersionChange")
    found.expect(123, "RagLatencyAfterVersionChange")
    found.expect(132, "RagLatencyAfterVersionChange", "2")
    found.expect(170, "RagLatencyAfterVersionChange", "2")
    found.expect(190, "RagLatencyAfterVersionChange")
    assert found.disagreement() == ""


@pytest.mark.parametrize(("before", "after"), [(0.2, 0.39), (0.02, 0.09), (0.2, 0.1)])
def test_a_little_slower_is_not_told(scenario: Make, before: float, after: float) -> None:
    """Less than twice; or so fast that nobody notices; or faster."""
    found = scenario()
    served(found, "1", before)
    served(found, "2", after, begins=2 * HOUR)
    for minute in (125, 135, 170):
        found.expect(minute, "RagLatencyAfterVersionChange")
    assert found.disagreement() == ""


def test_slowness_without_a_new_version_is_another_matter(scenario: Make) -> None:
    """Only a change of version is judged: neither a first release nor one version that becomes slow."""
    found = scenario()
    served(found, "1", 3.0, begins=2 * HOUR)
    found.expect(135, "RagLatencyAfterVersionChange")
    assert found.disagreement() == ""
    slower = scenario()
    each = 0.2 * 15
    slower.add(f"{LATENCY}_sum", f"0+{each}x{2 * HOUR}", f"{each * 2 * HOUR}+{5 * each}x{2 * HOUR}", model_name=MODEL,
               model_version="1", pod="a")
    slower.add(f"{LATENCY}_count", f"0+15x{4 * HOUR}", model_name=MODEL, model_version="1", pod="a")
    slower.expect(135, "RagLatencyAfterVersionChange")
    assert slower.disagreement() == ""


def test_a_version_without_requests_gives_no_baseline_of_nothing(scenario: Make) -> None:
    """The old pods stood idle before the change: no number to compare with, and none is made up."""
    found = scenario()
    for kind in ("sum", "count"):
        found.add(f"{LATENCY}_{kind}", f"0x{4 * HOUR}", model_name=MODEL, model_version="1", pod="a")
    served(found, "2", 0.5, begins=2 * HOUR)
    found.expect(135, "RagLatencyAfterVersionChange")
    assert found.disagreement() == ""


def test_a_quiet_hour_does_not_spoil_the_baseline(scenario: Make) -> None:
    """Requests came for half of the hour before: the mean is over those, not "no number" for the whole."""
    found = scenario()
    busy = HOUR * 3 // 4
    for kind, each in (("sum", 3), ("count", 15)):
        found.add(f"{LATENCY}_{kind}", f"0+{each}x{busy}", f"{each * busy}x{3 * HOUR}", model_name=MODEL,
                  model_version="1", pod="a")
    served(found, "2", 0.5, begins=2 * HOUR)
    found.expect(132, "RagLatencyAfterVersionChange", "2")
    assert found.disagreement() == ""


def keys(found: Scenario, version: str, number: str, expected: int | None = None, pod: str = "a") -> None:
    labels = {"model_name": MODEL, "model_version": version, "pod": pod}
    found.add("rag_cache_keys", number, **labels)
    if expected is not None:
        found.add("rag_cache_expected_keys", f"{expected}x400", **labels)


def test_more_keys_than_expected_are_told_after_a_while(scenario: Make) -> None:
    """Each pod tells the same number of the one Redis: it is not added up; each version has its own measure."""
    found = scenario()
    for pod in ("a", "b"):
        keys(found, "2", "900x40 1200x200", 1000, pod)
        keys(found, "1", "1500x400", 2000, pod)
    found.expect(9, "RagCacheKeyGrowth")
    found.expect(20, "RagCacheKeyGrowth")
    found.expect(26, "RagCacheKeyGrowth", "2")
    assert found.disagreement() == ""


def test_the_number_of_keys_can_be_a_value(scenario: Make) -> None:
    """Where a team knows better than the pods."""
    found = scenario(expectedKeys=5_000_000)
    keys(found, "2", "4000000x400", 1000)
    keys(found, "1", "6000000x400", 1000)
    found.expect(20, "RagCacheKeyGrowth", "1")
    assert found.disagreement() == ""


def test_a_person_is_told_what_and_where(scenario: Make) -> None:
    """Model, version, namespace, a number, and the page that says what to do."""
    found = scenario(severity="page")
    rules = [rule for rule in found.groups[0]["rules"] if "alert" in rule]
    for rule in rules:
        assert rule["labels"] == {"severity": "page"}
        text = rule["annotations"]["description"]
        named = {"$labels.model_name", "$labels.model_version", "$labels.namespace", "$value", "docs/serving-tier.md"}
        assert [part for part in named if part not in text] == []
    page = (Path(__file__).parents[2] / "docs" / "serving-tier.md").read_text()
    assert [rule["alert"] for rule in rules if f"`{rule['alert']}`" not in page] == []
