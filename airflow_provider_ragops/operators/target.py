"""What every operator on a serving target shares: connections, the lock around one procedure, the stop, the link."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, TypeVar

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowNotFoundException

from airflow_provider_ragops.contract import ServingTarget, digest
from airflow_provider_ragops.exceptions import ConfigurationError, LockLostError, RagopsError
from airflow_provider_ragops.hooks.keys import TargetKeys
from airflow_provider_ragops.hooks.mlflow import MlflowHook
from airflow_provider_ragops.hooks.serving import ServingHook
from airflow_provider_ragops.links.mlflow import MlflowRunLink
from airflow_provider_ragops.locking.holding import held
from airflow_provider_ragops.locking.lock import Lock
from airflow_provider_ragops.locking.times import LockTimes
from airflow_provider_ragops.operators import rendered
from airflow_provider_ragops.operators.translation import translated_errors
from airflow_provider_ragops.release.request import ReleaseOutcome
from airflow_provider_ragops.release.session import SPARE, Session

if TYPE_CHECKING:
    from airflow.sdk import Context

Result = TypeVar("Result")


class ServingTargetOperator(BaseOperator):
    """Base: one procedure on one serving target, in one task process, under the target's lock.

    Safe to retry: every try reads the release record and goes on from there. Never deferred: nobody safely holds a
    lock while a task is away.

    :param target: the serving target. (templated, when given as a dict of :class:`ServingTarget`'s fields)
    :param rollout_timeout: seconds for a rollout, and again for an undo.
    :param blessing_timeout: seconds for a candidate to load and answer in a pod beside the tier, before the tier is
        touched; None rolls out without it.
    :param lock_times: lease, renewal and waiting of the lock.
    :param redis_conn_id: Redis shared by the target's pods, to clean up old versions' keys; None for none. (templated)
    :param mlflow_conn_id: connection to the registry and the ledger.
    :param kubernetes_conn_id: connection to the target's cluster.
    """

    template_fields: Sequence[str] = ("target", "redis_conn_id")
    operator_extra_links = (MlflowRunLink(),)
    ui_color = "#d9ead3"

    def __init__(
        self,
        *,
        target: ServingTarget | dict[str, Any],
        rollout_timeout: float = 900.0,
        blessing_timeout: float | None = 300.0,
        lock_times: LockTimes | None = None,
        redis_conn_id: str | None = None,
        mlflow_conn_id: str = "mlflow_default",
        kubernetes_conn_id: str = "kubernetes_default",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        # A dict is rendered field by field; the value itself would be passed through untouched.
        self.target = target.as_dict() if isinstance(target, ServingTarget) else target
        self.rollout_timeout = rollout_timeout
        self.blessing_timeout = blessing_timeout
        self.lock_times = lock_times
        self.redis_conn_id = redis_conn_id
        self.mlflow_conn_id = mlflow_conn_id
        self.kubernetes_conn_id = kubernetes_conn_id
        self._stop = threading.Event()

    def execute(self, context: Context) -> Any:
        with translated_errors():
            return self.work(context, ServingTarget.of(self.target))

    def work(self, context: Context, target: ServingTarget) -> Any:
        """What the operator does."""
        raise NotImplementedError

    def on_kill(self) -> None:
        """Stop before the next effect: the body goes on running after this returns."""
        self._stop.set()

    @cached_property
    def serving(self) -> ServingHook:
        return ServingHook(self.kubernetes_conn_id)

    @cached_property
    def mlflow(self) -> MlflowHook:
        return MlflowHook(self.mlflow_conn_id)

    def procedure(
        self, context: Context, target: ServingTarget, purpose: str, call: Callable[[Session, int], ReleaseOutcome],
        release_id: str = "",
    ) -> dict[str, Any]:
        """Run one procedure under the lock and link its entry in the ledger.

        :param release_id: the request's, to find the entry of one that failed.
        :returns: the outcome's fields, and ``lock_seconds`` and ``api_calls`` (by verb) that it cost.
        """
        try:
            outcome, cost = self.under_lock(context, target, purpose, call)
        except RagopsError:
            self.link_entry(target, release_id)
            raise
        self.link_entry(target, outcome.release_id)
        return {**asdict(outcome), **cost}

    def under_lock(
        self, context: Context, target: ServingTarget, purpose: str, call: Callable[[Session, int], Result],
    ) -> tuple[Result, dict[str, Any]]:
        lock = self.serving.lock(target, self.actor(context), purpose, self.times(), sleep=self._sleep)
        self.mlflow.registry(ask_first=False)  # imports for seconds: not while others wait
        with held(lock):
            began = time.monotonic()
            result = call(self.session(target, partial(self._guard, target, lock), lock.renew), lock.token)
            cost = {"lock_seconds": round(time.monotonic() - began, 1), "api_calls": dict(self.serving.kube.calls)}
        self.log.info(
            "the lock of %s was held for %.1f s; %d requests to the Kubernetes API (%s)", target.slug,
            cost["lock_seconds"], sum(self.serving.kube.calls.values()), cost["api_calls"],
        )
        return result, cost

    def session(
        self, target: ServingTarget, guard: Callable[[float], None], renew: Callable[[int], None] = lambda _: None,
    ) -> Session:
        # Not asked first: an interrupted rollout is undone even while MLflow is down.
        registry, ledger = self.mlflow.registry(ask_first=False), self.mlflow.ledger(ask_first=False)
        redis = rendered.optional(self.redis_conn_id)
        keys = TargetKeys(redis, target, lambda: guard(SPARE)) if redis else None
        return Session(
            target, self.serving.updater(target), registry, ledger, guard, renew=renew, timeout=self.rollout_timeout,
            blessing_timeout=self.blessing_timeout, keys=keys,
        )

    def _guard(self, target: ServingTarget, lock: Lock, spare: float) -> None:
        if self._stop.is_set():
            raise self._stopped(target.slug)
        lock.check(spare)

    def _sleep(self, seconds: float) -> None:
        """The pause of a waiter: one that was told to stop must not take the lock later."""
        if self._stop.wait(seconds):
            raise self._stopped("waiting for its lock")

    def _stopped(self, what: str) -> LockLostError:
        return LockLostError(
            f"task {self.task_id} ({what})", expected="to go on", seen="the task was told to stop",
            action="The next try resumes from the release record.",
        )

    def times(self) -> LockTimes:
        """The lock must outlast a rollout and its undo, or a stuck rollout would never be undone."""
        times = self.lock_times or LockTimes()
        longest = 2 * self.rollout_timeout + (self.blessing_timeout or 0.0)
        if longest >= times.max_hold:
            raise ConfigurationError(
                "release", expected=f"twice rollout_timeout and blessing_timeout below the lock's max_hold of "
                f"{times.max_hold:g} s", seen=f"rollout_timeout {self.rollout_timeout:g} s, {longest:g} s in all",
                action="Shorten the one or lengthen the other.",
            )
        return times

    def actor(self, context: Context) -> str:
        ti, person = context["ti"], context["dag_run"].triggering_user_name
        return (f"{person} in " if person else "") + f"{_task(ti)}/try {ti.try_number}"

    def request_id(self, context: Context, target: ServingTarget, *parts: str) -> str:
        """The same for every try of one task instance."""
        return digest(target.slug, *parts, _task(context["ti"]))

    def link_entry(self, target: ServingTarget, release_id: str) -> None:
        """Point the task's link at the ledger's entry, where the release came as far as that."""
        if not release_id:
            return
        try:
            entries = self.mlflow.ledger().history(target.slug)
            # A rollout's id is the request's and its token; the newest entry comes first.
            mine = [entry.run_id for entry in entries if entry.release_id.startswith(release_id)]
            if mine:
                self.mlflow_run_url = self.mlflow.run_url(self.mlflow.run(mine[0]))
        # A missing link must not hide how the release ended.
        except (RagopsError, AirflowNotFoundException) as error:
            self.log.warning("no link to the ledger: %s", error)


def _task(ti: Any) -> str:
    return f"{ti.dag_id}/{ti.run_id}/{ti.task_id}/{ti.map_index}"
