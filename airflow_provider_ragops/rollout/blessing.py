"""The second blessing: the candidate loads in the serving image, beside the tier, and answers, before the tier is
touched.

Whatever happens, the pod is deleted; one that a killed process left behind is found by its label and deleted by the
next try, and ended by the kubelet before that.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_provider_ragops.contract import LABEL_BLESSING, ServingTarget
from airflow_provider_ragops.exceptions import ClusterError, ConflictError, RagopsError, UnreachableError
from airflow_provider_ragops.kube import Kube
from airflow_provider_ragops.rollout.candidate_pod import (
    GRACE_SECONDS,
    Blessing,
    Verdict,
    build,
    can_be_asked,
    ended,
    out_of_time,
)
from airflow_provider_ragops.rollout.reading import of_container, read_pod

if TYPE_CHECKING:
    from airflow_provider_ragops.rollout.updater import Updater

log = logging.getLogger(__name__)
Json = dict[str, Any]

# Seconds for a deleted pod to go, over its grace period: then its node does not answer.
GOING = 60.0
# Seconds that the kubelet leaves it to itself longer than we do.
SPARE = 60.0
# Lines of a failed pod's log that are kept in ours.
LAST_LINES = 20
_QUOTA = "exceeded quota"


@dataclass(frozen=True)
class Patience:
    """:param timeout: seconds for the whole. :param room: of these, for a node to be found."""

    timeout: float
    room: float


class Beside:
    """One target's pods beside the tier. Only the holder of the target's lock uses it.

    :param guard: called before each look and each effect; raises when the lock is lost or the task was told to stop.
    """

    def __init__(
        self, kube: Kube, target: ServingTarget, updater: Updater, guard: Callable[[], None], *, poll: float,
        clock: Callable[[], float], sleep: Callable[[float], None],
    ) -> None:
        self._kube, self._target, self._updater, self._guard = kube, target, updater, guard
        self._poll, self._clock, self._sleep = poll, clock, sleep
        self._core = f"/api/v1/namespaces/{target.namespace}"

    def bless(self, found: Json, version: str, example: Json | None, token: int, patience: Patience) -> Blessing:
        """Start the pod, wait until its probes are content, ask it, delete it and wait until its room is free.

        :raises UnreachableError: when the pod does not go, or can't be made because the API server does not answer.
        """
        self.sweep()
        service = self._kube.get(f"{self._core}/services/{self._target.service}")
        body = build(found, service, self._target, version, token, patience.timeout + SPARE)
        pod = self._create(body)
        if isinstance(pod, Blessing):
            return pod
        name = pod["metadata"]["name"]
        log.info("version %s of %s shows in pod %s that it loads and answers", version, self._target.slug, name)
        try:
            blessing = self._followed(pod, version, example, patience)
            if blessing.state is not Verdict.BLESSED:
                log.warning("pod %s: %s: %s\n%s", name, blessing.state, blessing.reason, self._last_lines(name))
        except BaseException:
            self._forget(pod)
            raise
        self._remove([pod])
        return blessing

    def sweep(self) -> None:
        """Delete what an earlier try left behind, and wait until its room is free."""
        left = self._kube.list(f"{self._core}/pods", f"{LABEL_BLESSING}={self._target.deployment}")
        if left:
            log.warning("pods left by an earlier try: %s", ", ".join(pod["metadata"]["name"] for pod in left))
            self._remove(left)

    def _create(self, body: Json) -> Json | Blessing:
        """The pod as stored. Its name is this try's own: one that exists already is ours, its reply was lost."""
        for left in range(2, -1, -1):
            self._guard()
            try:
                return self._kube.create(f"{self._core}/pods", body)
            except ConflictError:
                if stored := self._kube.get(self._path(body)):
                    return stored
            except ClusterError as error:
                if _QUOTA not in error.seen:
                    raise
                return Blessing(Verdict.NO_ROOM, error.seen)
            except UnreachableError:
                if not left:
                    raise
            self._sleep(self._poll)
        raise AssertionError("unreachable: the last try returns or raises")

    def _followed(self, pod: Json, version: str, example: Json | None, patience: Patience) -> Blessing:
        started, last = self._clock(), pod
        while True:
            self._guard()
            try:
                seen = self._kube.get(self._path(pod))
                if seen is None or seen["metadata"]["uid"] != pod["metadata"]["uid"]:
                    return Blessing(Verdict.NOT_POSSIBLE, "the pod was deleted by someone else")
                last, verdict = seen, self._look(seen, version, example)
                if verdict:
                    return verdict
            except UnreachableError as error:  # says nothing about the pod
                log.info("pod %s is looked at again: %s", pod["metadata"]["name"], error)
            elapsed = self._clock() - started
            unplaced = not read_pod(last, self._target.container).placed
            if elapsed >= (patience.room if unplaced else patience.timeout):
                return out_of_time(last, self._target.container, elapsed, self._words(last))
            self._sleep(self._poll)

    def _look(self, seen: Json, version: str, example: Json | None) -> Blessing | None:
        if verdict := ended(seen, self._target.container):
            return verdict
        name = seen["metadata"]["name"]
        if not can_be_asked(seen):
            words = self._updater.words(name) if self._runs(seen) else None
            return Blessing(Verdict.NOT_BLESSED, words.text) if words and words.hopeless else None
        answer = self._updater.ask(name, version, example)
        if not answer.fault:
            log.info("pod %s serves version %s, answered in %.0f ms", name, version, answer.seconds * 1000)
            return Blessing(Verdict.BLESSED)
        return Blessing(Verdict.NOT_BLESSED if answer.blames_version else Verdict.NOT_POSSIBLE, answer.fault)

    def _runs(self, seen: Json) -> bool:
        return "running" in (of_container(seen.get("status") or {}, self._target.container).get("state") or {})

    def _words(self, seen: Json) -> str:
        words = self._updater.words(seen["metadata"]["name"]) if self._runs(seen) else None
        return words.text if words else ""

    def _last_lines(self, name: str) -> str:
        try:
            return self._updater.logs(name, LAST_LINES)
        except RagopsError as error:  # no container ever ran, or its node is gone
            return f"(no log: {error.seen})"

    def _remove(self, pods: list[Json]) -> None:
        """Delete the pods and wait until they are gone: Terminating ones still hold their room."""
        deadline = self._clock() + GRACE_SECONDS + GOING
        while True:
            try:
                for pod in pods:
                    self._kube.delete(self._path(pod), pod["metadata"]["uid"])
                there = [pod["metadata"]["name"] for pod in pods if self._is_there(pod)]
            except UnreachableError:
                there = [pod["metadata"]["name"] for pod in pods]
            if not there:
                return
            if self._clock() >= deadline:
                raise UnreachableError(
                    f"pod {self._target.namespace}/{', '.join(there)}", expected=f"to go within {GOING:g} s",
                    seen="still there after it was deleted",
                    action="Nothing was released. Look at its node; delete it with --force if that is lost.",
                )
            self._sleep(self._poll)
            self._guard()

    def _forget(self, pod: Json) -> None:
        """Delete it without waiting: something worse is on its way."""
        try:
            self._kube.delete(self._path(pod), pod["metadata"]["uid"])
        except RagopsError:
            log.exception("pod %s stays; the next try deletes it", pod["metadata"]["name"])

    def _is_there(self, pod: Json) -> bool:
        seen = self._kube.get(self._path(pod))
        return seen is not None and bool(seen["metadata"]["uid"] == pod["metadata"]["uid"])

    def _path(self, pod: Json) -> str:
        return f"{self._core}/pods/{pod['metadata']['name']}"
