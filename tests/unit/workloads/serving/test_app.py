from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from threading import Event, Lock
from typing import Any

import httpx
import pytest

from airflow_provider_ragops.workloads.serving import model
from airflow_provider_ragops.workloads.serving.answer import Answer
from airflow_provider_ragops.workloads.serving.settings import Limits, Settings

from .conftest import MODEL, Registry, Serving, listening, wait_until

ROW = {"a": 1.5, "b": 4.0}
BODIES = [
    ("application/json", json.dumps({"dataframe_split": {"columns": ["a", "b"], "data": [[1.5, 4.0]]}})),
    ("application/json", json.dumps({"dataframe_records": [ROW]})),
    ("application/json", json.dumps({"instances": [ROW]})),
    ("application/json", json.dumps({"inputs": {"a": [1.5], "b": [4.0]}})),
    ("application/json; charset=utf-8", json.dumps({"dataframe_records": [ROW]})),
    ("text/csv", "a,b\n1.5,4.0\n"),
]
BAD_BODIES = [
    ("application/json", "no JSON"),
    ("application/json", "[1, 2]"),
    ("application/json", json.dumps({"rows": [ROW]})),
    ("application/json", json.dumps({"dataframe_split": 7})),
    ("application/json", json.dumps({"dataframe_records": [{"a": 1.5}]})),
    ("application/json", json.dumps({"dataframe_records": [{"a": "much", "b": 4.0}]})),
    ("application/json; charset=latin-1", json.dumps({"dataframe_records": [ROW]})),
    ("text/plain", "a b"),
]


def ask(client: httpx.Client, kind: str, body: str, **query: str) -> Any:
    return client.post("/invocations", content=body, headers={"content-type": kind}, params=query)


def test_a_loaded_version_is_ready_and_names_itself(serving: Serving, settings: Settings) -> None:
    """Ready comes with the loaded version and how long it took; alive says nothing of the model."""
    with serving() as client:
        health = client.get("/health")
        assert health.status_code == 200
        assert health.json() == {
            "status": "ready", "model_name": MODEL, "model_version": settings.model_version,
            "detail": health.json()["detail"], "code": "", "checks": {"marker": "off"},
        }
        assert "loaded in" in health.json()["detail"]
        assert client.get("/ping").status_code == client.get("/health/live").status_code == 200


def test_health_is_asked_for_an_exact_version(serving: Serving, settings: Settings) -> None:
    """R10: 200 only for the loaded version; another one gives 503 and names the loaded one."""
    with serving() as client:
        assert client.get("/health", params={"model_version": settings.model_version}).status_code == 200
        other = client.get("/health", params={"model_version": settings.model_version + "0"})
        assert other.status_code == 503
        assert other.json()["status"] == "other version"
        assert other.json()["model_version"] == settings.model_version


def test_the_pinned_version_is_loaded_whatever_the_alias_names(
    serving: Serving, settings: Settings, registry: Registry
) -> None:
    """M3: the alias is moved to a newer version; a pod that starts loads the version it was pinned to."""
    registry.client.set_registered_model_alias(MODEL, "champion", registry.register())
    with serving() as client:
        assert client.get("/health").json()["model_version"] == settings.model_version


@pytest.mark.parametrize(("kind", "body"), BODIES)
def test_every_input_format_gives_the_same_prediction(
    serving: Serving, settings: Settings, kind: str, body: str
) -> None:
    """2 * 1.5 + 4 = 7 in each of MLflow's formats, with the version that answered."""
    with serving() as client:
        answer = ask(client, kind, body)
    assert answer.status_code == 200
    assert answer.json() == {
        "predictions": [pytest.approx(7.0)],
        "metadata": {"model_name": MODEL, "model_version": settings.model_version},
    }


@pytest.mark.parametrize(("kind", "body"), BODIES + BAD_BODIES)
def test_status_and_predictions_equal_those_of_mlflows_own_server(
    serving: Serving, registry: Registry, kind: str, body: str
) -> None:
    """A client of MLflow's scoring server can be pointed here and sees the same statuses and predictions."""
    from mlflow import pyfunc
    from mlflow.pyfunc import scoring_server

    with listening(scoring_server.init(pyfunc.load_model(registry.source))) as client:
        theirs = ask(client, kind, body)
    with serving() as client:
        ours = ask(client, kind, body)
    assert ours.status_code == theirs.status_code
    if ours.status_code == 200:
        assert ours.json()["predictions"] == theirs.json()["predictions"]


@pytest.mark.parametrize(("kind", "body"), BAD_BODIES)
def test_bad_input_is_refused_as_json_without_a_stack_trace(serving: Serving, kind: str, body: str) -> None:
    """The caller learns what is wrong with the request, and nothing of our code; the pod stays ready."""
    with serving() as client:
        answer = ask(client, kind, body)
        assert answer.status_code in (400, 415)
        assert {"code", "error_code", "message"} <= set(answer.json())
        assert "Traceback" not in answer.text
        assert client.get("/health").status_code == 200


def test_bad_input_does_not_reach_the_log(serving: Serving, caplog: pytest.LogCaptureFixture) -> None:
    """MLflow warns of extra columns by name and repeats the row that it refuses; customers' data must not be logged."""
    with serving() as client:
        for row in ({"a": "canary", "b": 4.0}, {"a": 1.0, "b": 4.0, "canary": 1}, {"canary": 1}):
            ask(client, "application/json", json.dumps({"dataframe_records": [row], "params": {"canary": 1}}))
            ask(client, "application/json", json.dumps({"instances": [row]}))
    assert [record for record in caplog.records if record.name.startswith("airflow_provider_ragops")]
    assert not [record for record in caplog.records if "canary" in str(vars(record))]


@pytest.mark.parametrize("query", [{"model_version": "999"}, {"model_name": "Other"}])
def test_a_request_for_another_version_is_a_conflict(
    serving: Serving, settings: Settings, query: dict[str, str]
) -> None:
    """409 instead of another version's prediction; the body names the loaded one."""
    with serving() as client:
        answer = ask(client, *BODIES[0], **query)
        assert ask(client, *BODIES[0], model_name=MODEL, model_version=settings.model_version).status_code == 200
    assert answer.status_code == 409
    assert (answer.json()["code"], answer.json()["error_code"]) == ("model_version_not_found", "RESOURCE_CONFLICT")
    assert answer.json()["model_version"] == settings.model_version
    assert next(iter(query.values())) in answer.json()["message"]


def test_without_a_version_the_pod_is_alive_and_not_ready(serving: Serving) -> None:
    """A first installation: alive, not ready, and says what is missing."""
    with serving(model_version="") as client:
        assert client.get("/ping").status_code == 200
        health = client.get("/health")
        assert health.status_code == 503
        assert health.json()["status"] == "no version assigned"
        assert "MODEL_VERSION" in health.json()["detail"]
        assert ask(client, *BODIES[0]).status_code == 503


def test_a_version_that_does_not_exist_is_named(serving: Serving) -> None:
    """M4: failed for good: not ready, names model and version, stays alive so that it can be asked."""
    with serving(model_version="999") as client:
        health = client.get("/health")
        assert health.status_code == 503
        assert health.json()["status"] == "failed"
        assert health.json()["model_version"] == ""
        assert f"{MODEL} version 999" in health.json()["detail"]
        assert client.get("/ping").status_code == 200


def test_while_loading_requests_are_refused_and_then_answered(serving: Serving) -> None:
    """503 with the reason while the model loads; the same app answers once it has."""
    gate = Event()

    def load(settings: Settings) -> Any:
        gate.wait(30)
        return model.load(settings)

    with serving(load=load, settled=False) as client:
        refused = ask(client, *BODIES[0])
        assert refused.status_code == 503
        assert refused.json()["code"] == "not_ready"
        assert refused.headers["retry-after"] == "1"
        assert client.get("/health").json()["status"] == "loading"
        gate.set()
        wait_until(lambda: client.get("/health").status_code == 200)
        assert ask(client, *BODIES[0]).status_code == 200


class Slow:
    """A model that counts how many predictions run at once."""

    name, version, retriever = MODEL, "1", None

    def __init__(self) -> None:
        self.now = self.most = 0
        self._lock, self.crowded = Lock(), Event()

    def answer(self, body: bytes, content_type: str) -> Answer:
        with self._lock:
            self.now += 1
            self.most = max(self.most, self.now)
            if self.now == 2:
                self.crowded.set()
        self.crowded.wait(10)
        with self._lock:
            self.now -= 1
        return Answer("{}", 200)


def test_predictions_run_side_by_side_but_no_more_than_allowed(serving: Serving) -> None:
    """Eight requests, two at a time; the event loop stays free for probes meanwhile."""
    slow = Slow()
    two = Limits(concurrency=2)
    with serving(load=lambda _: slow, model_version="1", limits=two) as client, ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: ask(client, *BODIES[0]), range(8)))
    assert [answer.status_code for answer in answers] == [200] * 8
    assert slow.most == 2


def test_metrics_name_the_version(serving: Serving, settings: Settings) -> None:
    """Latency only of predictions, requests by status, and whether the version is loaded."""
    labels = f'model_name="{MODEL}",model_version="{settings.model_version}"'
    with serving() as client:
        ask(client, *BODIES[0])
        ask(client, "application/json", "no JSON")
        text = client.get("/metrics").text
    assert f"mlflow_inference_latency_seconds_count{{{labels}}} 1.0" in text
    assert f'mlflow_inference_requests_total{{{labels},status="200"}} 1.0' in text
    assert f'mlflow_inference_requests_total{{{labels},status="400"}} 1.0' in text
    assert f"mlflow_model_loaded{{{labels}}} 1.0" in text


def test_metrics_of_two_apps_do_not_mix(serving: Serving) -> None:
    """Nothing of a version lives in the process: a second app starts from zero."""
    with serving() as first:
        ask(first, *BODIES[0])
    with serving() as second:
        assert "mlflow_inference_requests_total{" not in second.get("/metrics").text
