"""Prometheus metrics of one serving process, in a registry of its own (no process-wide default)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

if TYPE_CHECKING:
    from airflow_provider_ragops.workloads.serving.state import Health

_LABELS = ("model_name", "model_version")
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)


class Metrics:
    """Labels name the loaded version; ``model_version`` is empty while none is."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._latency = Histogram(
            "mlflow_inference_latency_seconds", "From the whole request read to the answer ready, queueing included",
            _LABELS, buckets=_SECONDS, registry=self.registry,
        )
        self._requests = Counter(
            "mlflow_inference_requests", "Answers of /invocations by HTTP status",
            (*_LABELS, "status"), registry=self.registry,
        )
        self._loaded = Gauge(
            "mlflow_model_loaded", "1 when the version is loaded and answers", _LABELS, registry=self.registry
        )

    def answered(self, health: Health, status: int, seconds: float) -> None:
        """Count an answer; only predictions (not refusals) go into the latency."""
        self._requests.labels(health.model_name, health.model_version, str(status)).inc()
        if status < 400:
            self._latency.labels(health.model_name, health.model_version).observe(seconds)

    def render(self, health: Health) -> bytes:
        self._loaded.clear()
        self._loaded.labels(health.model_name, health.model_version).set(health.ready)
        return generate_latest(self.registry)
