"""Follow one's own write: look at the Deployment and its pods, ask each new pod, judge the whole."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from airflow_provider_ragops.exceptions import UnreachableError
from airflow_provider_ragops.rollout.answers import Answer
from airflow_provider_ragops.rollout.reading import Pod, Rollout, read_rollout
from airflow_provider_ragops.rollout.status import Progress, State, classify, classify_drain

if TYPE_CHECKING:
    from airflow_provider_ragops.rollout.updater import Updater

log = logging.getLogger(__name__)
Json = dict[str, Any]


class Following:
    """One rollout, look by look.

    :param written: the Deployment as our write returned it.
    :param version: ``""`` for "no version": nothing is asked then.
    :param patient: wait for pods that do badly, too: an undo has nowhere else to go.
    """

    def __init__(
        self, updater: Updater, container: str, written: Rollout, version: str, example: Json | None, *, patient: bool,
    ) -> None:
        self._updater, self._container, self._written = updater, container, written
        self._version, self._example, self._patient = version, example, patient
        self._answered: set[str] = set()

    def look(self) -> Progress:
        """One verdict. An API server that does not answer, or a connection that is cut, is no verdict: look again."""
        try:
            found = self._updater.read()
            pods = self._updater.pods(found)
            fault = self._ask_new(pods) if self._version else None
            progress = self._judge(read_rollout(found, self._container), [self._known(pod) for pod in pods])
        except UnreachableError as error:
            return Progress(State.WAITING, str(error))
        return self._bad(fault) if fault else progress

    def _judge(self, seen: Rollout, pods: list[Pod]) -> Progress:
        if not self._version:
            return classify_drain(seen, pods, written=self._written)
        progress = classify(seen, pods, written=self._written, version=self._version)
        doubtful = progress.state is State.DOUBTFUL
        return replace(progress, state=State.WAITING) if doubtful and self._patient else progress

    def _known(self, pod: Pod) -> Pod:
        """The pod with what it said itself: it answered well, or why it is not Ready."""
        pod = replace(pod, answered=pod.name in self._answered)
        if pod.running and not pod.ready and not pod.terminating and pod.version == self._version != "":
            words = self._updater.words(pod.name)
            if words:
                pod = replace(pod, waits=words.text, trouble=words.text if words.hopeless else pod.trouble)
        return replace(pod, trouble="", waits=pod.waits or pod.trouble) if self._patient else pod

    def _ask_new(self, pods: list[Pod]) -> Answer | None:
        """Ask each pod of the new version once, as it turns Ready; returns the first bad answer."""
        for pod in pods:
            if pod.version != self._version or not pod.ready or pod.terminating or pod.name in self._answered:
                continue
            answer = self._updater.ask(pod.name, self._version, self._example)
            if answer.fault:
                return answer
            log.info("pod %s serves version %s, answered in %.0f ms", pod.name, self._version, answer.seconds * 1000)
            self._answered.add(pod.name)
        return None

    def _bad(self, answer: Answer) -> Progress:
        state = State.WAITING if self._patient else State.FAILED
        return Progress(state, f"{answer.source}: {answer.fault}", answer.blames_version)
