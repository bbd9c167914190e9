"""One look at a target's guardrails: its pods' logs and metrics, its keys in Redis. Reads only, without the lock."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Protocol

from airflow_provider_ragops.exceptions import ClusterError, TargetError
from airflow_provider_ragops.release.guardrail import Latency, Seen, latencies, traces
from airflow_provider_ragops.rollout.reading import Pod
from airflow_provider_ragops.rollout.updater import Updater

log = logging.getLogger(__name__)


class Counts(Protocol):
    """:raises UnreachableError: when Redis does not answer."""

    def counts(self) -> Mapping[str, int]:
        """How many keys each version has."""


def look(updater: Updater, keys: Counts | None, since: int) -> Seen:
    """:param since: seconds of the logs to read. Of a pod that is not ready the last lines, however old: it may have
        said why once, when it started.

    :raises TargetError: no ready pod's metrics could be read: nothing is known, which is not the same as nothing found.
    """
    pods = [pod for pod in updater.pods(updater.read()) if not pod.terminating]
    found: dict[str, list[str]] = {}
    for pod in pods:
        text = log_of(updater, pod, since if pod.ready else None)
        if text is not None:
            found[pod.name] = traces(text)
    answering = [pod.name for pod in pods if pod.ready and pod.name in found]
    ready = {pod.name: pod.ready for pod in pods if pod.version and (pod.name in found or not pod.ready)}
    return Seen(ready, found, _latencies(updater, answering), keys.counts() if keys else {})


def log_of(updater: Updater, pod: Pod, since: int | None = None) -> str | None:
    """Its log; None where it went since it was listed, or where its container never ran."""
    try:
        return updater.logs(pod.name, since=since)
    except ClusterError as error:
        if error.seen.startswith("404") or (error.seen.startswith("400") and not pod.ready):
            return None
        raise


def _latencies(updater: Updater, pods: list[str]) -> dict[str, Latency]:
    latency: dict[str, Latency] = {}
    shown = [metrics for pod in pods if (metrics := updater.metrics(pod)) is not None]
    if pods and not shown:
        raise TargetError(
            f"pods {', '.join(pods)}", expected="at least one to show its metrics", seen="no answer with status 200",
            action="Ask one by hand: kubectl get --raw …/pods/NAME:5000/proxy/metrics.",
        )
    for metrics in shown:
        for version, one in latencies(metrics).items():
            latency[version] = latency.get(version, Latency()) + one
    return latency
