"""What a serving process says when asked: which version it serves, and a real answer."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]

# The serving process's own word for an error that waiting can't cure (workloads/serving/state.py).
HOPELESS = "failed"


@dataclass(frozen=True)
class Answer:
    """One pod's (or the Service's) answer; ``fault`` is empty for a good one.

    ``unheard`` marks that nothing came back: it is asked again. Then it was the way there (the API server's proxy
    could not reach the pod), or the pod ``hung``.
    """

    source: str
    version: str
    fault: str = ""
    seconds: float = 0.0
    unheard: bool = False
    hung: bool = False

    @property
    def blames_version(self) -> bool:
        return bool(self.fault) and (self.hung or not self.unheard)


def from_api_server(body: str) -> bool:
    """Whether the API server itself answered, and not the pod: its own answers are Status objects."""
    return '"kind":"Status"' in body.replace(" ", "")


def judge_health(source: str, status: int, body: str, version: str) -> Answer:
    """Read ``/health?model_version=N``: good only where exactly that version is loaded."""
    if from_api_server(body):
        return Answer(source, "", f"not reached: {status} {body[:200]}", unheard=True)
    try:
        loaded = str(json.loads(body).get("model_version", ""))
    except (ValueError, AttributeError):
        return Answer(source, "", f"/health answered {status} and no JSON: {body[:120]!r}")
    if status != 200:
        return Answer(source, loaded, f"/health answered {status}: {body[:200]}")
    if loaded != version:
        return Answer(source, loaded, f"version mismatch: it serves version {loaded!r}, not {version!r}")
    return Answer(source, loaded)


def judge_prediction(source: str, status: int, body: str, version: str, seconds: float) -> Answer:
    """Read the answer of ``/invocations``: non-empty, finite, and by the version that was asked for."""
    if from_api_server(body):
        return Answer(source, "", f"not reached: {status} {body[:200]}", unheard=True)
    try:
        found = json.loads(body)
        served = str(found["metadata"]["model_version"])
        predictions = found["predictions"]
    except (ValueError, KeyError, TypeError):
        return Answer(source, "", f"/invocations answered {status} without predictions: {body[:200]!r}")
    if status != 200:
        return Answer(source, served, f"/invocations answered {status}: {body[:200]}")
    if served != version:
        fault = f"version mismatch: /invocations was answered by version {served!r}, not {version!r}"
        return Answer(source, served, fault)
    if not predictions or _bad_number(predictions):
        return Answer(source, served, f"/invocations gave no usable prediction: {body[:200]}")
    return Answer(source, served, seconds=seconds)


@dataclass(frozen=True)
class Words:
    """What a pod that is not Ready says about itself; ``hopeless`` where waiting can't cure it."""

    text: str
    hopeless: bool = False


def judge_words(body: str) -> Words | None:
    """Read the ``/health`` of a pod that is not Ready; None where no serving process of ours answered."""
    try:
        found = json.loads(body)
        status, detail = str(found["status"]), str(found.get("detail") or "")
    except (ValueError, KeyError, TypeError):
        return None
    if from_api_server(body):
        return None
    return Words(f"{status}: {detail}"[:400], hopeless=status == HOPELESS)


def _bad_number(value: Any) -> bool:
    """A missing or non-finite number anywhere; ``inf`` and ``nan`` reach us as numbers or as ``null``."""
    if isinstance(value, dict):
        return any(_bad_number(item) for item in value.values())
    if isinstance(value, list):
        return any(_bad_number(item) for item in value)
    return value is None or (isinstance(value, float) and not -float("inf") < value < float("inf"))
