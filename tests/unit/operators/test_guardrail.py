"""The guardrails from Airflow: operator and sensor on a world in memory."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_ragops.exceptions import ClusterError, TargetError, UnreachableError
from airflow_provider_ragops.operators import guardrail
from airflow_provider_ragops.operators.guardrail import ModelGuardrailOperator
from airflow_provider_ragops.sensors import guardrail as sensing
from airflow_provider_ragops.sensors.guardrail import ModelGuardrailSensor
from tests.fakes.kube import unreachable
from tests.unit.operators.edge import connect, create_context
from tests.unit.release.world import TARGET, World, make_world_serving


class Scene:
    """Version 1 serves; pods say what ``metrics`` and ``logs`` hold, Redis what ``keys`` holds; time is a number."""

    def __init__(self, world: World) -> None:
        self.world, self.now, self.asked = world, 1_800_000_000.0, list[Mapping[str, str]]()
        self.mean, self.keys, self.log = {"1": 0.2}, {"1": 7}, "all quiet\n"
        self.logs, self.status, self.gone, self.never_ran = dict[str, str](), 200, "", ""
        self.stored: dict[str, Any] = {}

    def metrics(self) -> str:
        labels = 'model_name="M",model_version='
        return "".join(
            f'mlflow_inference_latency_seconds_{kind}{{{labels}"{version}"}} {value}\n'
            for version, mean in self.mean.items() for kind, value in (("sum", 50 * mean), ("count", 50.0))
        )

    def proxy(self, path: str, **_: Any) -> tuple[int, str]:
        assert path.endswith(":5000/proxy/metrics")
        return self.status, self.metrics()

    def text(self, path: str, query: Mapping[str, str]) -> str:
        self.asked.append(query)
        if path.split("/")[-2] == self.gone:
            raise ClusterError(path, expected="success", seen="404 not found", action="x")
        if path.split("/")[-2] == self.never_ran:
            raise ClusterError(path, expected="success", seen="400 is waiting to start", action="x")
        return self.logs.get(path.split("/")[-2], self.log)

    def unready(self, *pods: dict[str, Any]) -> list[str]:
        for pod in pods:
            pod["status"]["conditions"][0]["status"] = "False"
        return [pod["metadata"]["name"] for pod in pods]

    def run(self, **given: Any) -> dict[str, Any]:
        operator = ModelGuardrailOperator(task_id="guard", target=TARGET, **{"redis_conn_id": "r", **given})
        context = create_context(run_type="scheduled")
        context["ti"].xcom_pull = self.pull
        try:
            return dict(operator.execute(context))
        finally:
            self.stored = context["ti"].xcoms or self.stored

    def pull(self, *, task_ids: str, key: str, include_prior_dates: bool) -> Any:
        assert (task_ids, include_prior_dates) == ("guard", True)
        return self.stored.get(key)


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Scene:
    world = make_world_serving("1")
    connect(world, monkeypatch)
    found = Scene(world)
    monkeypatch.setattr(world.tier, "proxy", found.proxy)
    monkeypatch.setattr(world.tier, "text", found.text)

    class Keys:
        def __init__(self, conn_id: str, target: Any, guard: Callable[[], None]) -> None:
            assert (conn_id, target) == ("r", TARGET)

        def counts(self) -> Mapping[str, int]:
            return found.keys

    for module in (guardrail, sensing):
        monkeypatch.setattr(module, "TargetKeys", Keys)
        monkeypatch.setattr(module.time, "time", lambda: found.now)
    return found


def test_template_fields() -> None:
    """What a run may choose is rendered."""
    assert set(ModelGuardrailOperator.template_fields) == {"target", "redis_conn_id", "since", "expected_keys", "fail"}
    assert set(ModelGuardrailSensor.template_fields) == {"target", "redis_conn_id"}


def test_a_whole_target_is_told_in_numbers_and_nothing_is_written(scene: Scene) -> None:
    """Latency and keys by version; neither lock nor record is written; logs are read of the last seconds only."""
    before = scene.world.tier.writes[:]
    told = scene.run(since="600", expected_keys="100")
    assert told == {"target": TARGET.slug, "breaches": [], "latency": {"1": 0.2}, "keys": {"1": 7}}
    assert scene.world.tier.writes == before
    assert {query["sinceSeconds"] for query in scene.asked} == {"600"}
    assert all("tailLines" not in query for query in scene.asked)
    assert json.loads(json.dumps(told)) == told


def test_a_trace_in_a_log_fails_for_good(scene: Scene) -> None:
    """C7: no retry reads it away; the words name pod and number."""
    scene.log = "x\nCacheKeyCollisionError: Duplicate cache entry\nCacheKeyCollisionError\n"
    with pytest.raises(AirflowFailException, match=r"guardrails of .*pod pod-\d+: 2 lines in its log"):
        scene.run()
    told = scene.run(fail="False")
    assert {(one["what"], one["seen"]) for one in told["breaches"]} == {("collision", 2)}


def test_a_new_version_is_compared_with_what_runs_before_saw(scene: Scene) -> None:
    """Also after a run that failed, and once the old pods are gone."""
    scene.run()
    scene.now, scene.mean = scene.now + 900, {"1": 0.2, "2": 0.9}
    for _ in range(2):
        with pytest.raises(AirflowFailException, match="version 2: 900 ms"):
            scene.run()
        scene.now, scene.mean = scene.now + 900, {"2": 0.9}
    scene.mean = {"2": 0.3}
    assert scene.run()["breaches"] == []


def test_growth_is_judged_where_a_number_is_expected(scene: Scene) -> None:
    """C7: and Redis is asked only where there is a connection."""
    scene.keys = {"1": 101}
    with pytest.raises(AirflowFailException, match="version 1: 101 keys"):
        scene.run(expected_keys=100)
    assert scene.run(expected_keys="None")["breaches"] == []
    assert scene.run(redis_conn_id=None, expected_keys=100)["keys"] == {}


def test_a_pod_that_went_meanwhile_is_passed_over(scene: Scene) -> None:
    """The others are looked at; a right that is missing is an error, not a pod that went."""
    first, *_ = [pod["metadata"]["name"] for pod in scene.world.tier.pods]
    scene.gone, scene.log = first, "tokenizer_mismatch"
    assert first not in {one["subject"] for one in scene.run(fail=False)["breaches"]}


def test_a_pod_that_is_not_ready_has_its_log_read(scene: Scene) -> None:
    """C7: who met another's marker, dimension or tokenizer is the one that is not ready; it said so long ago."""
    [name] = scene.unready(scene.world.tier.pods[0])
    scene.logs[name] = '{"message": "loading failed", "code": "cache_key_collision"}'
    told = scene.run(since=60, fail=False)
    assert [(one["what"], one["subject"], one["seen"]) for one in told["breaches"]] == [("collision", name, 1)]
    assert sorted(query.get("sinceSeconds", "") for query in scene.asked) == ["", "60"]
    assert not ModelGuardrailSensor(task_id="quiet", target=TARGET).poke({})


def test_no_ready_pod_is_a_breach(scene: Scene) -> None:
    """C7: also where none of them says why, or its container never ran; and metrics of such pods are not asked for."""
    names = scene.unready(*scene.world.tier.pods)
    scene.never_ran, scene.status = names[0], 500
    with pytest.raises(AirflowFailException, match="none of 2 pods is ready"):
        scene.run()
    assert not ModelGuardrailSensor(task_id="quiet", target=TARGET).poke({})


def test_a_tier_without_a_version_waits_for_its_first_release(scene: Scene) -> None:
    """Its pods are not ready, and are not to be."""
    scene.unready(*scene.world.tier.pods)
    for pod in scene.world.tier.pods:
        pod["spec"]["containers"][0]["env"] = []
    assert scene.run()["breaches"] == []


def test_a_log_is_read_up_to_a_bound(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A busy pod's log does not fill the worker's memory; what was left out is told."""
    scene.run()
    assert {query["limitBytes"] for query in scene.asked} == {"16777216"}
    assert "were read" not in caplog.text
    monkeypatch.setattr("airflow_provider_ragops.rollout.updater.LOG_BYTES", len(scene.log))
    scene.run()
    assert "log only the first 0 MiB were read" in caplog.text


def test_metrics_that_nobody_shows_are_no_good_news(scene: Scene) -> None:
    """Nothing known is not the same as nothing found."""
    scene.status = 500
    with pytest.raises(AirflowFailException, match="at least one to show its metrics") as failed:
        scene.run()
    assert isinstance(failed.value.__cause__, TargetError)


def test_an_api_server_that_dies_meanwhile_is_tried_again(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R12: no verdict over the pods, and an error that a retry may cure."""
    tier = scene.world.tier

    def down(path: str, **_: Any) -> tuple[int, str]:
        tier.before = lambda verb, path: (_ for _ in ()).throw(unreachable(path))
        raise unreachable(path)

    monkeypatch.setattr(tier, "proxy", down)
    with pytest.raises(UnreachableError):
        scene.run()


def test_the_sensor_waits_until_nothing_is_found(scene: Scene) -> None:
    """C7: a trace keeps it waiting, and so do too many keys."""
    sensor = ModelGuardrailSensor(task_id="quiet", target=TARGET, redis_conn_id="r", expected_keys=10)
    scene.log = "embedding_dimension_mismatch"
    assert not sensor.poke({})
    scene.log, scene.keys = "", {"1": 11}
    assert not sensor.poke({})
    scene.keys = {"1": 10}
    assert sensor.poke({})
    assert {query["sinceSeconds"] for query in scene.asked} == {"60"}
