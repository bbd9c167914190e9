"""Verification of the whole target after a rollout, against what was measured before it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from airflow_provider_ragops.contract import ServingTarget
from airflow_provider_ragops.release.guardrail import LATENCY_FACTOR, traces
from airflow_provider_ragops.release.watch import log_of
from airflow_provider_ragops.rollout.reading import Pod
from airflow_provider_ragops.rollout.updater import Updater

log = logging.getLogger(__name__)
Json = dict[str, Any]

# Below this many seconds a doubled median is the noise of the API server's proxy.
LATENCY_FLOOR = 0.5


class Verification:
    """Asks every pod and the Service, reads the new pods' logs, compares the latency with the baseline."""

    def __init__(self, updater: Updater, target: ServingTarget, guard: Callable[[float], None]) -> None:
        self._updater, self._target, self._guard = updater, target, guard
        self._baseline: float | None = None

    def measure_before(self, version: str, example: Json) -> None:
        """Median latency of the version that serves now; none on a first release."""
        if version:
            self._baseline = self._updater.latency(self._ready(version), version, example)
            log.info("latency before: %s", _shown(self._baseline))

    def fault(self, version: str, example: Json) -> str:
        """The first thing wrong with the whole; empty for a good one."""
        self._guard(2.0)
        pods = self._ready(version)
        answers = [self._updater.ask(pod, version, example) for pod in pods]
        answers.append(self._updater.ask_service(version, example))
        for answer in answers:
            if answer.fault:
                return f"{answer.source}: {answer.fault}"
        for one in self._pods(version):  # one that is no longer ready has the most to say
            if found := traces(log_of(self._updater, one) or ""):
                return f"pod {one.name}: {found[0]} in its log"
        return self._slower(pods, version, example)

    def _slower(self, pods: list[str], version: str, example: Json) -> str:
        after = self._updater.latency(pods, version, example)
        log.info("latency after: %s, before: %s", _shown(after), _shown(self._baseline))
        if after is None:
            return "no pod gave an answer to measure"
        if self._baseline is not None and after > max(LATENCY_FACTOR * self._baseline, LATENCY_FLOOR):
            return f"latency {_shown(after)} is over {LATENCY_FACTOR:g} times the {_shown(self._baseline)} before"
        return ""

    def _ready(self, version: str) -> list[str]:
        return [pod.name for pod in self._pods(version) if pod.ready]

    def _pods(self, version: str) -> list[Pod]:
        pods = self._updater.pods(self._updater.read())
        return [pod for pod in pods if not pod.terminating and pod.version == version]


def _shown(seconds: float | None) -> str:
    return "unknown" if seconds is None else f"{seconds * 1000:.0f} ms"
