"""One look at a target's guardrails: its pods' logs and metrics, its keys in Redis. Reads only, without the lock."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Protocol

from airflow_provider_ragops.exceptions import ClusterError, TargetError
from airflow_provider_ragops.release.guardrail import Latency, Seen, latencies, traces
from airflow_provider_ragops.rollout.updater import Updater

log = logging.getLogger(__name__)


class Counts(Protocol):
    """:raises UnreachableError: when Redis does not answer."""

    def counts(self) -> Mapping[str, int]:
        """How many keys each version has."""


def look(updater: Updater, keys: Counts | None, since: int) -> Seen:
    """:param since: seconds of the logs to read.

    A pod that meets what belongs to another version may never turn Ready: its log is read, too.

    :raises TargetError: no pod's metrics could be read: nothing is known, which is not the same as nothing found.
    """
    pods = [pod.name for pod in updater.pods(updater.read()) if not pod.terminating]
    found: dict[str, list[str]] = {}
    latency: dict[str, Latency] = {}
    heard = 0
    for pod in pods:
        try:
            found[pod] = traces(updater.logs(pod, since=since))
        except ClusterError as error:
            if not error.seen.startswith("404"):
                raise
            continue  # it went since it was listed
        metrics = updater.metrics(pod)
        heard += metrics is not None
        for version, one in latencies(metrics or "").items():
            latency[version] = latency.get(version, Latency()) + one
    if pods and not heard:
        raise TargetError(
            f"pods {', '.join(pods)}", expected="at least one to show its metrics", seen="no answer with status 200",
            action="Ask one by hand: kubectl get --raw …/pods/NAME:5000/proxy/metrics.",
        )
    return Seen(found, latency, keys.counts() if keys else {})
