"""Release one model version to one serving target, in one task process, under the target's lock."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from airflow_provider_ragops.cache.cleanup import clean_versions
from airflow_provider_ragops.contract import ServingTarget, digest
from airflow_provider_ragops.exceptions import ConfigurationError, LockLostError, RagopsError
from airflow_provider_ragops.hooks.mlflow import MlflowHook
from airflow_provider_ragops.hooks.redis import redis_client
from airflow_provider_ragops.hooks.serving import ServingHook
from airflow_provider_ragops.links.mlflow import MlflowRunLink
from airflow_provider_ragops.locking.lock import Lock, LockTimes, held
from airflow_provider_ragops.operators.translation import translated_errors
from airflow_provider_ragops.release.procedure import Release, ReleaseRequest

if TYPE_CHECKING:
    from airflow.sdk import Context


class ModelReleaseOperator(BaseOperator):
    """Roll a serving target to a model version, verify it pod by pod, and move ``@champion`` last.

    Safe to retry: every try reads the release record and goes on from there. A version that does not come up or
    answers badly is undone and quarantined. Never deferred: nobody safely holds a lock while a task is away.

    :param target: the serving target. (templated, when given as a dict of :class:`ServingTarget`'s fields)
    :param version: the model version to release; it must have passed the gate. (templated)
    :param reason: why, for the ledger. (templated)
    :param rollout_timeout: seconds for the rollout, and again for an undo.
    :param lock_times: lease, renewal and waiting of the lock.
    :param redis_conn_id: Redis shared by the target's pods, to clean up old versions' keys; None for none.
    :param mlflow_conn_id: connection to the registry and the ledger.
    :param kubernetes_conn_id: connection to the target's cluster.
    """

    template_fields: Sequence[str] = ("target", "version", "reason")
    operator_extra_links = (MlflowRunLink(),)
    ui_color = "#d9ead3"

    def __init__(
        self,
        *,
        target: ServingTarget | dict[str, Any],
        version: str,
        reason: str = "the candidate passed the quality gate",
        rollout_timeout: float = 900.0,
        lock_times: LockTimes | None = None,
        redis_conn_id: str | None = None,
        mlflow_conn_id: str = "mlflow_default",
        kubernetes_conn_id: str = "kubernetes_default",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        # A dict is rendered field by field; the value itself would be passed through untouched.
        self.target = target.as_dict() if isinstance(target, ServingTarget) else target
        self.version = version
        self.reason = reason
        self.rollout_timeout = rollout_timeout
        self.lock_times = lock_times
        self.redis_conn_id = redis_conn_id
        self.mlflow_conn_id = mlflow_conn_id
        self.kubernetes_conn_id = kubernetes_conn_id
        self._stop = threading.Event()

    def execute(self, context: Context) -> dict[str, Any]:
        with translated_errors():
            target = ServingTarget.of(self.target)
            request = self._request(context, target)
            serving, mlflow = ServingHook(self.kubernetes_conn_id), MlflowHook(self.mlflow_conn_id)
            purpose = f"release {target.model} {request.version}"
            lock = serving.lock(target, request.actor, purpose, self._times())
            try:
                with held(lock):
                    outcome = self._release(target, serving, mlflow, lock).run(request, lock.token)
            except RagopsError:
                self._link(mlflow, target, request.release_id)
                raise
            self._link(mlflow, target, outcome.release_id)
            return asdict(outcome)

    def on_kill(self) -> None:
        """Stop before the next effect: the body goes on running after this returns."""
        self._stop.set()

    def _link(self, mlflow: MlflowHook, target: ServingTarget, release_id: str) -> None:
        """Point the task's link at the ledger's entry, where the release came as far as that."""
        try:
            entries = mlflow.ledger().history(target.slug)
            # A rollout's id is the request's and its token; the newest entry comes first.
            mine = [entry.run_id for entry in entries if entry.release_id.startswith(release_id)]
            if mine:
                self.mlflow_run_url = mlflow.run_url(mlflow.run(mine[0]))
        except RagopsError as error:  # a missing link must not hide how the release ended
            self.log.warning("no link to the ledger: %s", error)

    def _release(self, target: ServingTarget, serving: ServingHook, mlflow: MlflowHook, lock: Lock) -> Release:
        def guard(spare: float) -> None:
            if self._stop.is_set():
                raise LockLostError(
                    f"release to {target.slug}", expected="to go on", seen="the task was told to stop",
                    action="The next try resumes from the release record.",
                )
            lock.check(spare)

        return Release(
            # Not asked first: an interrupted rollout is undone even while MLflow is down.
            target, serving.updater(target), mlflow.registry(ask_first=False), mlflow.ledger(ask_first=False), guard,
            renew=lock.renew, timeout=self.rollout_timeout, clean=self._cleaner(target),
        )

    def _cleaner(self, target: ServingTarget) -> Callable[[set[str]], None] | None:
        conn_id = self.redis_conn_id
        if conn_id is None:
            return None

        def clean(keep: set[str]) -> None:
            with redis_client(conn_id) as client:
                clean_versions(client, target.redis_prefix, target.model, keep)

        return clean

    def _times(self) -> LockTimes:
        """The lock must outlast a rollout and its undo, or a stuck rollout would never be undone."""
        times = self.lock_times or LockTimes()
        if 2 * self.rollout_timeout >= times.max_hold:
            raise ConfigurationError(
                "release", expected=f"twice rollout_timeout below the lock's max_hold of {times.max_hold:g} s",
                seen=f"rollout_timeout {self.rollout_timeout:g} s", action="Shorten the one or lengthen the other.",
            )
        return times

    def _request(self, context: Context, target: ServingTarget) -> ReleaseRequest:
        version = str(self.version).strip()
        if not version.isdigit():
            raise ConfigurationError(
                f"release to {target.slug}", expected="a model version (a number)", seen=repr(self.version),
                action="Pass the gate's candidate, or fill in 'version' in the form.",
            )
        ti = context["ti"]
        task = f"{ti.dag_id}/{ti.run_id}/{ti.task_id}/{ti.map_index}"
        release_id = digest(target.slug, version, task)
        return ReleaseRequest(version, release_id, f"{task}/try {ti.try_number}", str(self.reason))
