"""What counts as a good answer of a pod."""

from __future__ import annotations

import json

import pytest

from airflow_provider_ragops.rollout.answers import judge_health, judge_prediction

GOOD = {"predictions": [0.25], "metadata": {"model_version": "2"}}


def test_good_answers() -> None:
    """The right version, ready, with a finite prediction."""
    assert not judge_health("pod", 200, '{"model_version": "2"}', "2").fault
    assert not judge_prediction("pod", 200, json.dumps(GOOD), "2", 0.1).fault


@pytest.mark.parametrize(("status", "body", "reason"), [
    (200, '{"model_version": "1"}', "serves version '1', not '2'"), (200, "<html>", "no JSON"),
    (503, '{"model_version": "2"}', "503"), (200, '{"model_version": "20"}', "'20'"),
])  # fmt: skip
def test_bad_health(status: int, body: str, reason: str) -> None:
    """Another version, a half-loaded one, or something that is no serving process at all."""
    assert reason in judge_health("pod", status, body, "2").fault


@pytest.mark.parametrize(("status", "body", "reason"), [
    (500, '{"error": "x"}', "500"), (200, json.dumps(GOOD | {"predictions": []}), "no usable"),
    (200, json.dumps(GOOD | {"predictions": [None]}), "no usable"), (200, '{"predictions": [NaN], "metadata": '
     '{"model_version": "2"}}', "no usable"), (200, json.dumps(GOOD | {"metadata": {"model_version": "1"}}), "'1'"),
])  # fmt: skip
def test_bad_predictions(status: int, body: str, reason: str) -> None:
    """An error, an empty list, a missing or non-finite number, or another version's answer."""
    assert reason in judge_prediction("pod", status, body, "2", 0.1).fault


def test_proxy_faults_are_told_from_the_pods() -> None:
    """Where the API server could not reach the pod, the answer is nobody's."""
    body = '{"kind":"Status","status":"Failure","message":"dial tcp: connection refused"}'
    assert judge_health("pod", 503, body, "2").unheard
    assert not judge_health("pod", 503, '{"status": "loading", "model_version": ""}', "2").unheard
