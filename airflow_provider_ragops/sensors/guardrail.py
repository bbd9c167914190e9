"""Waits until no guardrail of a serving target is broken."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseSensorOperator

from airflow_provider_ragops.contract import ServingTarget
from airflow_provider_ragops.hooks.keys import TargetKeys
from airflow_provider_ragops.hooks.serving import ServingHook
from airflow_provider_ragops.release.guardrail import History, Limits, judge
from airflow_provider_ragops.release.watch import look

if TYPE_CHECKING:
    from airflow.sdk import Context


class ModelGuardrailSensor(BaseSensorOperator):
    """Wait until a look finds a ready pod, no trace of another version in the logs, and no version with too many keys.

    Latency is compared with what this sensor saw first; in mode ``reschedule`` every look is the first, so that it is
    not judged: ``ModelGuardrailOperator`` on a schedule judges it.

    :param target: the serving target, or its fields. (templated)
    :param redis_conn_id: Redis shared by the target's pods; None does not count keys. (templated)
    :param since: seconds of the logs to read.
    :param expected_keys: of one version in Redis; None judges none.
    :param kubernetes_conn_id: connection to the target's cluster.
    """

    template_fields = ("target", "redis_conn_id")

    def __init__(
        self, *, target: ServingTarget | dict[str, Any], redis_conn_id: str | None = None, since: int = 60,
        expected_keys: int | None = None, kubernetes_conn_id: str = "kubernetes_default", **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.target = target.as_dict() if isinstance(target, ServingTarget) else target
        self.redis_conn_id = redis_conn_id
        self.since = since
        self.expected_keys = expected_keys
        self.kubernetes_conn_id = kubernetes_conn_id
        self._history = History()

    def poke(self, context: Context) -> bool:  # noqa: ARG002  the signature is Airflow's
        target, limits = ServingTarget.of(self.target), Limits(expected_keys=self.expected_keys)
        keys = TargetKeys(self.redis_conn_id, target, lambda: None) if self.redis_conn_id else None
        seen = look(ServingHook(self.kubernetes_conn_id).updater(target), keys, self.since)
        now = time.time()
        self._history = self._history.after(seen, limits, now)
        breaches = judge(seen, self._history, limits, now)
        for breach in breaches:
            self.log.warning("%s: %s", target.slug, breach.reason)
        return not breaches
