"""The guardrails of a serving target, looked at from Airflow."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from airflow_provider_ragops.contract import ServingTarget
from airflow_provider_ragops.exceptions import ReleaseRefusedError
from airflow_provider_ragops.hooks.keys import TargetKeys
from airflow_provider_ragops.operators import rendered
from airflow_provider_ragops.operators.target import ServingTargetOperator
from airflow_provider_ragops.release.guardrail import History, Limits, judge
from airflow_provider_ragops.release.watch import look

if TYPE_CHECKING:
    from airflow.sdk import Context

XCOM_HISTORY = "history"


class ModelGuardrailOperator(ServingTargetOperator):
    """Read logs and readiness of pods, latencies and, with ``redis_conn_id``, keys by version; no lock, no write.

    Run it on a schedule: each run compares a version that is new with what runs before it saw. A breach fails the
    task for good, so that the DAG's failure callback tells someone.

    :param since: seconds of the logs to read; a little more than the schedule's interval. (templated)
    :param expected_keys: of one version in Redis; empty judges none. (templated)
    :param latency_factor: a new version may be this many times as slow as the slowest before it.
    :param latency_floor: seconds that are never too slow.
    :param fail: False only reports. (templated)

    Returns ``breaches`` (``what``, ``subject``, ``seen``, ``limit``, ``reason``), ``latency`` (mean seconds by version)
    and ``keys`` (by version).
    """

    template_fields: Sequence[str] = (*ServingTargetOperator.template_fields, "since", "expected_keys", "fail")

    def __init__(
        self, *, since: int | str = 1000, expected_keys: int | str | None = None, latency_factor: float = 2.0,
        latency_floor: float = 0.1, fail: bool | str = True, **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.since = since
        self.expected_keys = expected_keys
        self.latency_factor = latency_factor
        self.latency_floor = latency_floor
        self.fail = fail

    def work(self, context: Context, target: ServingTarget) -> dict[str, Any]:
        expected = rendered.optional(self.expected_keys)
        limits = Limits(
            self.latency_factor, self.latency_floor,
            None if expected is None else rendered.whole_number("expected_keys", expected),
        )
        redis = rendered.optional(self.redis_conn_id)
        keys = TargetKeys(redis, target, lambda: None) if redis else None
        seen = look(self.serving.updater(target), keys, rendered.whole_number("since", self.since))
        now = time.time()
        history = self._before(context).after(seen, limits, now)
        # Pushed before a breach fails the task: the next run needs it all the same.
        context["ti"].xcom_push(key=XCOM_HISTORY, value=history.as_dict())
        breaches = judge(seen, history, limits, now)
        for breach in breaches:
            self.log.warning("%s: %s", target.slug, breach.reason)
        if breaches and rendered.truth("fail", self.fail):
            raise ReleaseRefusedError(
                f"guardrails of {target.slug}", expected="none to be broken",
                seen="; ".join(breach.reason for breach in breaches),
                action="Look at docs/serving-tier.md, Alerts; roll back with the DAG model_release where it goes on.",
            )
        return {
            "target": target.slug, "breaches": [asdict(breach) for breach in breaches], "keys": dict(seen.keys),
            "latency": {version: round(one.mean, 6) for version, one in seen.latency.items() if one.answers},
        }

    def _before(self, context: Context) -> History:
        stored = context["ti"].xcom_pull(task_ids=self.task_id, key=XCOM_HISTORY, include_prior_dates=True)
        return History.of(stored)
