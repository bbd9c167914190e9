"""How far a rolling update is: a pure reading of the Deployment and its pods.

The ladder follows ``kubectl rollout status`` and goes on where that one stops: it binds the answer to our own write
(same UID, our template), asks that every pod has said which version it serves, counts Terminating pods, and does not
believe a condition that may be left from before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from airflow_provider_ragops.rollout.reading import Pod, Rollout, read_pod, read_rollout, version_of

__all__ = [
    "Doubt", "Pod", "Progress", "Rollout", "State", "Suspicion", "classify", "classify_drain", "confirm", "read_pod",
    "read_rollout", "version_of",
]


class State(StrEnum):
    WAITING = "waiting"
    DONE = "done"
    DOUBTFUL = "doubtful"  # failed, if it lasts
    FAILED = "failed"


class Doubt(StrEnum):
    """What counts as a failure only when it was seen at two looks, and for as long as :attr:`patience`, without a
    break."""

    # The first status after the controller has seen a new template may still carry the last one's condition
    # (kubernetes#124264).
    DEADLINE = "ProgressDeadlineExceeded"
    # Whatever else leaves frees its quota, too, but a ReplicaSet tries again only after a while, which doubles.
    REPLICAS = "ReplicaFailure"

    @property
    def patience(self) -> float:
        return 120.0 if self is Doubt.REPLICAS else 0.0


@dataclass(frozen=True)
class Progress:
    """One verdict and one message.

    :param blames_version: the version itself does badly. False where a person, a lack of room or the cluster stands
        in its way: it may well be tried again.
    """

    state: State
    reason: str
    blames_version: bool = False
    doubt: Doubt | None = None


@dataclass(frozen=True)
class Suspicion:
    """A doubt that was seen at the look before, and on our clock since when."""

    doubt: Doubt
    since: float


def classify(seen: Rollout, pods: Sequence[Pod], *, written: Rollout, version: str) -> Progress:
    """Judge ``seen`` against ``written``, the Deployment as our own write returned it."""
    if meddled := _meddled(seen, written, version):
        return Progress(State.FAILED, meddled)
    if seen.desired < 1:
        return Progress(State.FAILED, "the Deployment was scaled to 0 replicas")
    new = [pod for pod in pods if pod.version == version and not pod.terminating]
    for pod in new:
        if pod.trouble:
            return Progress(State.FAILED, f"pod {pod.name}: {pod.trouble}", blames_version=True)
    if behind := _behind(seen, written):
        return Progress(State.WAITING, behind)
    waiting = _counting(seen) or _leaving(pods, version) or _unheard(new, seen)
    if not waiting:
        return Progress(State.DONE, f"{seen.desired} pods serve {version}")
    leaving = any(pod.terminating for pod in pods)
    return _doubted(seen, new, written, leaving) or Progress(State.WAITING, _told(waiting, seen, new), _stuck(new))


def classify_drain(seen: Rollout, pods: Sequence[Pod], *, written: Rollout) -> Progress:
    """The ladder for "no version": nobody has to be ready, but no pod of a version may be left."""
    if meddled := _meddled(seen, written, ""):
        return Progress(State.FAILED, meddled)
    if behind := _behind(seen, written):
        return Progress(State.WAITING, behind)
    if left := sorted(pod.name for pod in pods if pod.version):
        return Progress(State.WAITING, f"pods of a version still there: {', '.join(left)}")
    return Progress(State.DONE, "no pod serves a version")


def confirm(progress: Progress, before: Suspicion | None, now: float) -> tuple[Progress, Suspicion | None]:
    """Turn a doubtful verdict into a failure once it has lasted, and into waiting until then."""
    doubt = progress.doubt
    if progress.state is not State.DOUBTFUL or doubt is None:
        return progress, None
    lasting = before is not None and before.doubt is doubt
    since = before.since if before is not None and lasting else now
    failed = lasting and now - since >= doubt.patience
    state = State.FAILED if failed else State.WAITING
    return Progress(state, progress.reason, progress.blames_version), Suspicion(doubt, since)


def _meddled(seen: Rollout, written: Rollout, version: str) -> str:
    """Someone else's hand. An autoscaler's is none: it changes the replicas and leaves the template."""
    if seen.uid != written.uid:
        return "the Deployment was deleted and made anew"
    if seen.version != version:
        return f"someone else set MODEL_VERSION to {seen.version!r}"
    if seen.template != written.template:
        return "someone else changed the pod template, though not its MODEL_VERSION"
    return "the Deployment is paused" if seen.paused else ""


def _behind(seen: Rollout, written: Rollout) -> str:
    """All counters are about what the controller has seen: neither less than our write, nor an older replica count."""
    wanted = max(written.generation, seen.generation)
    return "the controller has not seen the change yet" if seen.observed_generation < wanted else ""


def _counting(seen: Rollout) -> str:
    if seen.updated < seen.desired:
        return f"{seen.updated} of {seen.desired} pods updated"
    if seen.replicas > seen.updated:
        return f"{seen.replicas - seen.updated} old pods still there"
    if seen.replicas > seen.desired:
        return f"{seen.replicas - seen.desired} pods too many"
    if seen.available < seen.desired:
        return f"{seen.available} of {seen.desired} updated pods available"
    return ""


def _leaving(pods: Sequence[Pod], version: str) -> str:
    leaving = sorted(pod.name for pod in pods if pod.version != version or pod.terminating)
    return f"old pods still draining: {', '.join(leaving)}" if leaving else ""


def _unheard(new: Sequence[Pod], seen: Rollout) -> str:
    """Ready and available are not enough: each pod must have said itself which version it serves."""
    silent = sorted(pod.name for pod in new if not pod.answered)
    if silent:
        return f"not yet heard from: {', '.join(silent)}"
    if len(new) < seen.desired:
        return f"{len(new)} of {seen.desired} pods are listed"
    return ""


def _doubted(seen: Rollout, new: Sequence[Pod], written: Rollout, leaving: bool) -> Progress | None:
    if seen.replica_failure and not leaving and not seen.makes_room:
        return Progress(State.DOUBTFUL, f"a pod could not be made: {seen.replica_failure}", doubt=Doubt.REPLICAS)
    # Times of one format and one clock, the API server's: text sorts as they do.
    if seen.deadline_exceeded_at > written.deadline_exceeded_at:
        reason = _told(f"ProgressDeadlineExceeded at {seen.deadline_exceeded_at}", seen, new)
        return Progress(State.DOUBTFUL, reason, _stuck(new), Doubt.DEADLINE)
    return None


def _told(reason: str, seen: Rollout, new: Sequence[Pod]) -> str:
    """The rung, and what the cluster or the pods say about it: whoever reads it hours later finds no pod to ask."""
    waits = [f"pod {pod.name}: {pod.waits}" for pod in new if pod.waits]
    failed = [f"a pod could not be made: {seen.replica_failure}"] if seen.replica_failure else []
    return "; ".join([reason, *failed, *waits])


def _stuck(new: Sequence[Pod]) -> bool:
    """Whether time that runs out now is the version's doing: one of its pods runs and does not turn Ready."""
    return any(pod.running and not pod.ready for pod in new)
