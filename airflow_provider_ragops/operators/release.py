"""Release one model version to one serving target, in one task process, under the target's lock."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseHook, BaseOperator

from airflow_provider_ragops.contract import ServingTarget, digest
from airflow_provider_ragops.exceptions import ConfigurationError, LockLostError, MissingExtraError
from airflow_provider_ragops.hooks.mlflow import MlflowHook
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
            target = ServingTarget(**{**self.target, "port": int(self.target.get("port", 5000))})
            request = self._request(context, target)
            serving = ServingHook(self.kubernetes_conn_id)
            lock = serving.lock(target, request.actor, f"release {target.model} {request.version}", self.lock_times)
            with held(lock):
                outcome = self._release(target, serving, lock).run(request, lock.token)
            return asdict(outcome)

    def on_kill(self) -> None:
        """Stop before the next effect: the body goes on running after this returns."""
        self._stop.set()

    def _release(self, target: ServingTarget, serving: ServingHook, lock: Lock) -> Release:
        mlflow = MlflowHook(self.mlflow_conn_id)

        def guard(spare: float) -> None:
            if self._stop.is_set():
                raise LockLostError(
                    f"release to {target.slug}", expected="to go on", seen="the task was told to stop",
                    action="The next try resumes from the release record.",
                )
            lock.check(spare)

        return Release(
            target, serving.updater(target), mlflow.registry(), mlflow.ledger(), guard,
            renew=lock.renew, timeout=self.rollout_timeout, clean=self._cleaner(target),
        )

    def _cleaner(self, target: ServingTarget) -> Any:
        if self.redis_conn_id is None:
            return None
        try:
            import redis
        except ImportError as error:
            raise MissingExtraError.of("clean-up of Redis", "redis", "redis") from error
        from airflow_provider_ragops.cache.cleanup import clean_versions

        connection = BaseHook.get_connection(self.redis_conn_id)
        client = redis.Redis(
            host=connection.host or "localhost", port=connection.port or 6379, username=connection.login or None,
            password=connection.password or None, db=int(connection.schema or 0), decode_responses=True,
            socket_timeout=10, socket_connect_timeout=5,
        )
        return lambda keep: clean_versions(client, target.redis_prefix, target.model, keep)

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
