"""The effects of a rolling update: read and write the Deployment, ask its pods, wait."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from airflow_provider_ragops.contract import ServingTarget
from airflow_provider_ragops.exceptions import ClusterError, TargetError
from airflow_provider_ragops.kube import Kube
from airflow_provider_ragops.rollout.answers import Answer, Words
from airflow_provider_ragops.rollout.asking import Asker
from airflow_provider_ragops.rollout.blessing import Beside, Patience
from airflow_provider_ragops.rollout.candidate_pod import Blessing
from airflow_provider_ragops.rollout.feasibility import Feasibility, judge
from airflow_provider_ragops.rollout.following import Following
from airflow_provider_ragops.rollout.plan import Change, apply, gap
from airflow_provider_ragops.rollout.reading import Pod, read_pod, read_rollout, selector_text
from airflow_provider_ragops.rollout.room import read_room
from airflow_provider_ragops.rollout.status import Progress, State, Suspicion, confirm

log = logging.getLogger(__name__)
Json = dict[str, Any]

# Of one pod's log at most: what a task reads lies in its memory.
LOG_BYTES = 16 * 1024 * 1024


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
        self._asker = Asker(kube, target, poll=poll, alive=self.read, clock=clock, sleep=sleep)

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

    def neighbours(self) -> list[Json]:
        """All Deployments of the cluster, or, where the account may not read those, of this namespace."""
        try:
            return self._kube.list("/apis/apps/v1/deployments", "")
        except ClusterError as error:
            log.info("Deployments of other namespaces are not looked at: %s", error)
            return self._kube.list(self._path.rpartition("/")[0], "")

    def write(self, found: Json, change: Change) -> Json:
        """Write the change if nothing changed since ``found`` was read.

        :raises ConflictError: when something did.
        """
        written = self._kube.replace(self._path, apply(found, change, self._target))
        if change.version and (cost := gap(change.strategy, read_rollout(found, self._target.container).desired)):
            log.warning("rollout of %s to version %s: %s", self._target.slug, change.version, cost)
        return written

    def feasibility(self, found: Json) -> Feasibility:
        """Whether one more pod of this Deployment can be scheduled now."""
        return judge(found["spec"]["template"], read_room(self._kube, self._target.namespace))

    def bless(
        self, found: Json, version: str, example: Json | None, *, token: int, timeout: float,
        guard: Callable[[], None], room: float = 60.0,
    ) -> Blessing:
        """Let the version load and answer in a pod beside the tier, which is not touched.

        :param timeout: seconds until it can be asked; ``room``: of these, until a node is found for it.
        :param token: of this try; names the pod.
        :raises UnreachableError: when the pod can't be made or does not go.
        """
        return self._beside(guard).bless(found, version, example, token, Patience(timeout, room))

    def sweep(self, guard: Callable[[], None]) -> None:
        """Delete pods beside the tier that a killed process left."""
        self._beside(guard).sweep()

    def _beside(self, guard: Callable[[], None]) -> Beside:
        return Beside(
            self._kube, self._target, self, guard, poll=self._poll, clock=self._clock, sleep=self._sleep,
        )

    def pods(self, found: Json) -> list[Pod]:
        """The Deployment's pods, but for those that have ended."""
        listed = self._kube.list(f"{self._core}/pods", selector_text(found["spec"]["selector"]))
        pods = [read_pod(pod, self._target.container) for pod in listed]
        return [pod for pod in pods if not pod.ended]

    def ask(self, pod: str, version: str, example: Json | None) -> Answer:
        """Ask one pod which version it serves and, with an example, for a real answer.

        :raises UnreachableError: when the API server itself does not answer.
        """
        return self._asker.pod(pod, version, example)

    def ask_service(self, version: str, example: Json | None) -> Answer:
        return self._asker.service(version, example)

    def words(self, pod: str) -> Words | None:
        """What a pod that is not Ready says about itself; None where it says nothing."""
        return self._asker.words(pod)

    def latency(self, pods: list[str], version: str, example: Json, times: int = 5) -> float | None:
        """Median seconds of a real answer, over ``times`` requests to each pod; ``None`` without a good answer."""
        return self._asker.latency(pods, version, example, times)

    def metrics(self, pod: str) -> str | None:
        """What it tells Prometheus; None where it does not answer with status 200."""
        return self._asker.metrics(pod)

    def logs(self, pod: str, lines: int = 2000, since: int | None = None) -> str:
        """The last lines, or those of the last ``since`` seconds; of either the first ``LOG_BYTES``."""
        limit = {"tailLines": str(lines)} if since is None else {"sinceSeconds": str(since)}
        query = {"container": self._target.container, "limitBytes": str(LOG_BYTES), **limit}
        found = self._kube.text(f"{self._core}/pods/{pod}/log", query)
        if len(found.encode()) >= LOG_BYTES:
            log.warning("of pod %s's log only the first %d MiB were read; look at it more often", pod, LOG_BYTES >> 20)
        return found

    def wait(
        self, written: Json, version: str, example: Json | None, timeout: float, guard: Callable[[], None],
        *, patient: bool = False,
    ) -> Progress:
        """Follow our own write until every pod serves ``version``, a pod answers badly, or time is up.

        :param version: ``""`` for "no version": then pods never turn Ready and only the drain is awaited.
        :param patient: wait to the end for pods in trouble: an undo has nowhere else to go.
        :param guard: called before each look; raises when the lock is lost or the task was told to stop.
        :returns: done, or failed with the reason.
        """
        container = self._target.container
        following = Following(self, container, read_rollout(written, container), version, example, patient=patient)
        deadline, last = self._clock() + timeout, ""
        suspicion: Suspicion | None = None
        while True:
            guard()
            progress, suspicion = confirm(following.look(), suspicion, self._clock())
            if progress.state is not State.WAITING:
                return progress
            if progress.reason != last:
                log.info("rollout of %s to version %s: %s", self._target.slug, version or "none", progress.reason)
                last = progress.reason
            if self._clock() >= deadline:
                late = f"not finished after {timeout:g} s: {progress.reason}"
                return replace(progress, state=State.FAILED, reason=late)
            self._sleep(self._poll)
