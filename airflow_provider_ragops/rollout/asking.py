"""Ask pods and the Service, through the API server's proxy, which version they serve and for a real answer."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from typing import Any

from airflow_provider_ragops.contract import ServingTarget
from airflow_provider_ragops.exceptions import ClusterError, UnreachableError
from airflow_provider_ragops.kube import Kube
from airflow_provider_ragops.rollout.answers import (
    Answer,
    Words,
    from_api_server,
    judge_health,
    judge_prediction,
    judge_words,
)

Json = dict[str, Any]

# How often a pod is asked again that the API server's proxy did not reach: endpoints lag a moment behind readiness.
UNHEARD_ALLOWED = 2
# Seconds for one answer. A model is warm when its pod is Ready; one that hangs must be found before the next pod.
ANSWER_TIMEOUT = 5.0
# Seconds for a word of a pod that is not Ready: a look must not take long for something that only explains.
WORDS_TIMEOUT = 2.0


class Asker:
    """Questions to the pods of one target.

    :param alive: reads from the API server; raises ``UnreachableError`` where it does not answer.
    """

    def __init__(
        self, kube: Kube, target: ServingTarget, *, poll: float, alive: Callable[[], object],
        clock: Callable[[], float], sleep: Callable[[float], None],
    ) -> None:
        self._kube, self._target, self._poll, self._alive = kube, target, poll, alive
        self._clock, self._sleep = clock, sleep
        self._core = f"/api/v1/namespaces/{target.namespace}"

    def pod(self, name: str, version: str, example: Json | None) -> Answer:
        return self._ask(f"pod {name}", self._of_pod(name), version, example)

    def service(self, version: str, example: Json | None) -> Answer:
        # By the port's name: its number may differ from the pods'.
        base = f"{self._core}/services/{self._target.service}:http/proxy"
        return self._ask(f"Service {self._target.service}", base, version, example)

    def words(self, name: str) -> Words | None:
        """What a pod that is not Ready says about itself; None where it says nothing."""
        try:
            return judge_words(self._proxy(f"{self._of_pod(name)}/health", timeout=WORDS_TIMEOUT)[1])
        except UnreachableError:
            return None

    def metrics(self, name: str) -> str | None:
        """What a pod tells Prometheus; None where it does not answer with status 200."""
        try:
            status, body = self._proxy(f"{self._of_pod(name)}/metrics")
        except UnreachableError:
            self._alive()
            return None
        return body if status == 200 else None

    def latency(self, pods: list[str], version: str, example: Json, times: int) -> float | None:
        """Median seconds of a real answer, over ``times`` requests to each pod; ``None`` without a good answer."""
        answers = [self.pod(pod, version, example) for pod in pods for _ in range(times)]
        good = [answer.seconds for answer in answers if not answer.fault]
        return median(good) if good else None

    def _of_pod(self, name: str) -> str:
        return f"{self._core}/pods/{name}:{self._target.port}/proxy"

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
            # An API server that restarts says nothing about the pod.
            self._alive()
            return Answer(source, "", f"no answer: {error}", unheard=True, hung=True)

    def _proxy(self, path: str, timeout: float = ANSWER_TIMEOUT, **request: Any) -> tuple[int, str]:
        """:raises ClusterError: where our own account may not ask; that says nothing about the version."""
        status, body = self._kube.proxy(path, timeout=timeout, **request)
        if status in (401, 403) and from_api_server(body):
            raise ClusterError(
                f"Kubernetes proxy {path}", expected="the right to ask the pods", seen=f"{status} {body[:200]}",
                action="Grant pods/proxy and services/proxy to the account (see docker/chart, Role ragops-releaser).",
            )
        return status, body
