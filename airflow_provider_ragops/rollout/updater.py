"""The effects of a rolling update: read and write the Deployment, ask pods, wait."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import replace
from statistics import median
from typing import Any

from airflow_provider_ragops.contract import ServingTarget
from airflow_provider_ragops.exceptions import ClusterError, TargetError, UnreachableError
from airflow_provider_ragops.kube import Kube
from airflow_provider_ragops.rollout.answers import Answer, from_api_server, judge_health, judge_prediction
from airflow_provider_ragops.rollout.plan import Change, apply
from airflow_provider_ragops.rollout.status import Pod, Progress, Rollout, State, classify, read_pod, read_rollout

log = logging.getLogger(__name__)
Json = dict[str, Any]

# How often a pod is asked again that the API server's proxy did not reach: endpoints lag a moment behind readiness.
UNHEARD_ALLOWED = 2
# Seconds for one answer. A model is warm when its pod is Ready; one that hangs must be found before the next pod.
ANSWER_TIMEOUT = 5.0


class Updater:
    """One serving target on one cluster.

    :param clock: monotonic seconds; ``sleep`` waits between two looks, ``poll`` seconds apart. ``poll`` stays well
        below ``min_ready_seconds``, so that each new pod is asked before the next one is started.
    """

    def __init__(
        self, kube: Kube, target: ServingTarget, *, poll: float = 1.0,
        clock: Callable[[], float] = time.monotonic, sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._kube, self._target, self._poll = kube, target, poll
        self._clock, self._sleep = clock, sleep
        self._path = f"/apis/apps/v1/namespaces/{target.namespace}/deployments/{target.deployment}"
        self._core = f"/api/v1/namespaces/{target.namespace}"

    def read(self) -> Json:
        """The Deployment as stored.

        :raises TargetError: when there is none.
        """
        found = self._kube.get(self._path)
        if found is None:
            raise TargetError(
                f"Deployment {self._target.slug}", expected="to exist", seen="nothing of this name",
                action="Install the chart (docker/chart) or correct the serving target.",
            )
        return found

    def write(self, found: Json, change: Change) -> Json:
        """Write the change if nothing changed since ``found`` was read.

        :raises ConflictError: when something did.
        """
        return self._kube.replace(self._path, apply(found, change, self._target))

    def pods(self, found: Json) -> list[Pod]:
        labels = found["spec"]["selector"]["matchLabels"]
        selector = ",".join(f"{key}={value}" for key, value in sorted(labels.items()))
        pods = [read_pod(pod, self._target.container) for pod in self._kube.list(f"{self._core}/pods", selector)]
        return [pod for pod in pods if not pod.ended]

    def ask(self, pod: str, version: str, example: Json | None) -> Answer:
        """Ask one pod which version it serves and, with an example, for a real answer."""
        return self._ask(f"pod {pod}", f"{self._core}/pods/{pod}:{self._target.port}/proxy", version, example)

    def ask_service(self, version: str, example: Json | None) -> Answer:
        # By the port's name: its number may differ from the pods'.
        base = f"{self._core}/services/{self._target.service}:http/proxy"
        return self._ask(f"Service {self._target.service}", base, version, example)

    def _ask(self, source: str, base: str, version: str, example: Json | None) -> Answer:
        answer = self._ask_once(source, base, version, example)
        for _ in range(UNHEARD_ALLOWED):
            if not answer.unheard:
                break
            self._sleep(self._poll)
            answer = self._ask_once(source, base, version, example)
        return answer

    def _ask_once(self, source: str, base: str, version: str, example: Json | None) -> Answer:
        try:
            seen = self._proxy(f"{base}/health", query={"model_version": version})
            health = judge_health(source, *seen, version)
            if health.fault or example is None:
                return health
            started = self._clock()
            seen = self._proxy(f"{base}/invocations", method="POST", body=example)
            return judge_prediction(source, *seen, version, self._clock() - started)
        except UnreachableError as error:
            return Answer(source, "", f"no answer: {error}", unheard=True)

    def _proxy(self, path: str, **request: Any) -> tuple[int, str]:
        """:raises ClusterError: where our own account may not ask; that says nothing about the version."""
        status, body = self._kube.proxy(path, timeout=ANSWER_TIMEOUT, **request)
        if status in (401, 403) and from_api_server(body):
            raise ClusterError(
                f"Kubernetes proxy {path}", expected="the right to ask the pods", seen=f"{status} {body[:200]}",
                action="Grant pods/proxy and services/proxy to the account (see docker/chart, Role ragops-releaser).",
            )
        return status, body

    def latency(self, pods: list[str], version: str, example: Json, times: int = 5) -> float | None:
        """Median seconds of a real answer, over ``times`` requests to each pod; ``None`` without a good answer."""
        answers = [self.ask(pod, version, example) for pod in pods for _ in range(times)]
        good = [answer.seconds for answer in answers if not answer.fault]
        return median(good) if good else None

    def logs(self, pod: str, lines: int = 2000) -> str:
        query = {"tailLines": str(lines), "container": self._target.container}
        return self._kube.text(f"{self._core}/pods/{pod}/log", query)

    def wait(
        self, written: Json, version: str, example: Json | None, timeout: float, guard: Callable[[], None],
        *, patient: bool = False,
    ) -> Progress:
        """Follow our own write until every pod serves ``version``, a pod answers badly, or time is up.

        :param version: ``""`` for "no version": then pods never turn Ready and only the drain is awaited.
        :param patient: wait to the end for pods in trouble: an undo has nowhere else to go.
        :param guard: called before each look; raises when the lock is lost or the task was told to stop.
        """
        mine = read_rollout(written, self._target.container)
        deadline, asked, last = self._clock() + timeout, set[str](), ""
        while True:
            guard()
            progress = self._look(mine, version, example, asked, patient)
            if progress.state is not State.WAITING:
                return progress
            if progress.reason != last:
                log.info("rollout of %s to version %s: %s", self._target.slug, version or "none", progress.reason)
                last = progress.reason
            if self._clock() >= deadline:
                return Progress(State.FAILED, f"not finished after {timeout:g} s: {progress.reason}")
            self._sleep(self._poll)

    def _look(
        self, mine: Rollout, version: str, example: Json | None, asked: set[str], patient: bool,
    ) -> Progress:
        try:
            found = self.read()
            pods = [replace(pod, trouble="") if patient else pod for pod in self.pods(found)]
            fault = self._ask_new(pods, version, example, asked) if version else ""
        except UnreachableError as error:
            return Progress(State.WAITING, str(error))
        if fault:
            return Progress(State.FAILED, fault)
        seen = read_rollout(found, self._target.container)
        return classify(seen, pods, written=mine, version=version) if version else _drained(seen, pods, mine)

    def _ask_new(self, pods: list[Pod], version: str, example: Json | None, asked: set[str]) -> str:
        """Ask each pod of the new version once, as it turns Ready; returns the first bad answer."""
        for pod in pods:
            if pod.version != version or not pod.ready or pod.terminating or pod.name in asked:
                continue
            answer = self.ask(pod.name, version, example)
            if answer.fault:
                return f"{answer.source}: {answer.fault}"
            log.info("pod %s serves version %s, answered in %.0f ms", pod.name, version, answer.seconds * 1000)
            asked.add(pod.name)
        return ""


def _drained(seen: Rollout, pods: list[Pod], written: Rollout) -> Progress:
    """The ladder for "no version": nobody has to be ready, but no pod of a version may be left."""
    if seen.uid != written.uid or seen.version:
        return Progress(State.FAILED, "someone else changed the Deployment")
    left = [pod.name for pod in pods if pod.version]
    if seen.observed_generation < written.generation or left:
        return Progress(State.WAITING, f"pods of a version still there: {', '.join(sorted(left)) or 'unknown yet'}")
    return Progress(State.DONE, "no pod serves a version")
