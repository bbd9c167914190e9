"""Prometheus metrics of one serving process, in a registry of its own (no process-wide default)."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info, generate_latest

from airflow_provider_ragops.workloads.serving.answer import Answer

if TYPE_CHECKING:
    from airflow_provider_ragops.workloads.serving.state import Health

_LABELS = ("model_name", "model_version")
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)


class Metrics:
    """Labels name the loaded version; ``model_version`` is empty while none is."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self._latency = Histogram(
            "mlflow_inference_latency_seconds", "From the whole request read to the answer ready, queueing included",
            _LABELS, buckets=_SECONDS, registry=registry,
        )
        self._requests = Counter(
            "mlflow_inference_requests", "Answers of /invocations by HTTP status", (*_LABELS, "status"),
            registry=registry,
        )
        self._errors = Counter(
            "mlflow_inference_errors", "Answers of /invocations that are none, by stable code", (*_LABELS, "code"),
            registry=registry,
        )
        self._cache = Counter(
            "mlflow_serving_cache", "Looks into the version's cache: hit, miss, mismatch, bypass, off",
            (*_LABELS, "layer", "outcome"), registry=registry,
        )
        self._in_flight = Gauge("mlflow_inference_in_flight", "Requests to /invocations not answered yet",
                                registry=registry)
        self._loaded = Gauge(
            "mlflow_model_loaded", "1 when the version is loaded and answers", _LABELS, registry=registry
        )
        self._info = Info("mlflow_model", "What the pod serves", registry=registry)
        # labels() of the client looks its child up under a lock each time; these few are used for every request
        self._child: Any = lru_cache(maxsize=256)(lambda metric, *values: metric.labels(*values))

    def begun(self) -> None:
        self._in_flight.inc()

    def answered(self, health: Health, answer: Answer, seconds: float) -> None:
        """Count an answer; only predictions (not refusals) go into the latency."""
        self._in_flight.dec()
        name, version = health.model_name, health.model_version
        self._child(self._requests, name, version, str(answer.status)).inc()
        if answer.code:
            self._child(self._errors, name, version, answer.code).inc()
        else:
            self._child(self._latency, name, version).observe(seconds)
        for layer, outcome in answer.cache:
            self._child(self._cache, name, version, layer, outcome).inc()

    def render(self, health: Health, info: dict[str, str]) -> bytes:
        self._loaded.clear()
        self._loaded.labels(health.model_name, health.model_version).set(health.ready)
        self._info.info({"model_name": health.model_name, "model_version": health.model_version, **info})
        return generate_latest(self.registry)
