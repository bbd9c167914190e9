"""A lock around several tasks of your own, as a setup and its teardown. Weaker than a lock within one task.

.. code-block:: python

    acquire = LockAcquireOperator(task_id="acquire", namespace="ml-workloads", lock_name="nightly-export",
                                  lease_seconds=2 * 3600, purpose="export of the vector store")
    release = LockReleaseOperator(task_id="release", lock=acquire.output)
    acquire >> export >> upload >> release.as_teardown(setups=acquire)

Prefer one task: ``locking.holding.held`` renews while a block runs, and its ``check`` knows when the hold has ended.
Nobody renews between tasks. So:

- ``lease_seconds`` is a promise about the longest that the section can take, queueing, retries and deferral of its
  tasks included. A section that takes longer may have company from then on; the release then fails and says whose.
- A holder that dies without its teardown blocks everybody for the rest of that lease. A setup that failed leaves its
  teardown ``upstream_failed``; ``dagrun_timeout`` skips it; marking either by hand runs nothing.
- A failed teardown leaves the run green, unless it was made with ``on_failure_fail_dagrun=True``; watch for it.
- Clearing ``only_failed`` reruns a task in the middle without its setup, that is without the lock. Clear the setup
  with it. Clearing the setup forgets who held the lock, so it waits for the old lease to end: that is meant, tasks of
  the old section may still run.
- Tasks in the middle can't be stopped. Where writing late would do harm, give the token to what they write to, and
  refuse a smaller one there. That is what a release does, and why this is not for releases.

The connection's account needs get, update and watch on the ConfigMap of this name, and create.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_ragops.exceptions import ConfigurationError, LockLostError
from airflow_provider_ragops.hooks.serving import ServingHook
from airflow_provider_ragops.locking.configmap import ConfigMapStore
from airflow_provider_ragops.locking.lock import Lock
from airflow_provider_ragops.locking.store import free
from airflow_provider_ragops.locking.times import LockTimes, elapsed
from airflow_provider_ragops.operators import rendered
from airflow_provider_ragops.operators.translation import translated_errors

if TYPE_CHECKING:
    from airflow.sdk import Context

# A few requests must fit into a lease, or a slow API server alone would lose the section.
SHORTEST_LEASE = 60


class LockAcquireOperator(BaseOperator):
    """Take a lock and leave it taken; a setup whose teardown is :class:`LockReleaseOperator`. Read the limits above.

    Returns ``namespace``, ``lock_name``, ``holder`` (unique for each try that took it) and ``token``. A second try
    does not enter on the first one's hold.

    :param namespace: where the lock's ConfigMap lies; it is made there if it is missing. (templated)
    :param lock_name: its name; not a serving target's release lock. (templated)
    :param lease_seconds: the longest that the section can take; others wait that long for a holder that died.
    :param wait_seconds: how long to wait for it; longer than a lease, by default twice one. The wait takes a worker's
        slot: what a waiter knows about a dead holder lives in its process.
    :param purpose: what for, told to whoever waits. (templated)
    """

    template_fields: Sequence[str] = ("namespace", "lock_name", "purpose")
    ui_color = "#d9ead3"

    def __init__(
        self,
        *,
        namespace: str,
        lock_name: str,
        lease_seconds: int,
        wait_seconds: float | None = None,
        purpose: str = "a critical section",
        kubernetes_conn_id: str = "kubernetes_default",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.namespace = namespace
        self.lock_name = lock_name
        self.lease_seconds = lease_seconds
        self.wait_seconds = wait_seconds
        self.purpose = purpose
        self.kubernetes_conn_id = kubernetes_conn_id
        self._stop = threading.Event()

    def execute(self, context: Context) -> dict[str, Any]:
        with translated_errors():
            lock = self._lock(context)
            try:
                token = lock.acquire()
            except BaseException:
                lock.release()  # a timeout may strike just after the write that took it
                raise
            self.log.info("lock %s/%s is ours: token %d", self.namespace, self.lock_name, token)
            return {
                "namespace": self.namespace, "lock_name": self.lock_name, "holder": lock.identity, "token": token,
            }

    def on_kill(self) -> None:
        """Stop waiting: what was told to stop must not take the lock later."""
        self._stop.set()

    def _lock(self, context: Context) -> Lock:
        name, times, ti = rendered.required("lock_name", self.lock_name), self._times(), context["ti"]
        if name.endswith("-release-lock"):
            raise ConfigurationError(
                f"lock {self.namespace}/{name}", expected="a lock of your own", seen="the name of a release lock",
                action="Releases hold it within one task; choose another name.",
            )
        store = ConfigMapStore(ServingHook(self.kubernetes_conn_id).kube, self.namespace, name)
        holder = f"{ti.dag_id}/{ti.run_id}/{ti.task_id}/{ti.map_index}/try {ti.try_number}"
        return Lock(store, holder, self.purpose, times, clock=elapsed, sleep=self._sleep)

    def _times(self) -> LockTimes:
        lease, wait = self.lease_seconds, self.wait_seconds
        if type(lease) is not int or lease < SHORTEST_LEASE:
            raise ConfigurationError(
                f"lock {self.namespace}/{self.lock_name}", seen=repr(lease),
                expected=f"lease_seconds in whole seconds, at least {SHORTEST_LEASE}",
                action="Set it to the longest that the section can take.",
            )
        # Nobody renews: the whole lease is the hold.
        return LockTimes(lease, renew_deadline=lease - 1, wait=2.0 * lease if wait is None else wait, max_hold=lease)

    def _sleep(self, seconds: float) -> None:
        if self._stop.wait(seconds):
            raise LockLostError(
                f"lock {self.namespace}/{self.lock_name}", expected="to wait for it",
                seen="the task was told to stop", action="The next try waits anew.",
            )


class LockReleaseOperator(BaseOperator):
    """Free a lock that :class:`LockAcquireOperator` took, if that very try still holds it; else change nothing.

    Safe to retry. Fails, so that someone looks, where the section outlived its lease and somebody else took over.

    :param lock: what the acquiring task returned: ``acquire.output``. (templated)
    """

    template_fields: Sequence[str] = ("lock",)
    ui_color = "#d9ead3"

    def __init__(self, *, lock: Any, kubernetes_conn_id: str = "kubernetes_default", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.lock = lock
        self.kubernetes_conn_id = kubernetes_conn_id

    def execute(self, context: Context) -> None:  # noqa: ARG002 - Airflow's signature
        if not self.lock:
            self.log.warning("nothing to release: the acquiring task returned no lock (skipped, cleared or marked)")
            return
        with translated_errors():
            namespace, name, holder, token = self._held()
            store = ConfigMapStore(ServingHook(self.kubernetes_conn_id).kube, namespace, name)
            left = free(store, holder)
        # Free with our token: we did it, now or in an earlier try.
        if left is None or not left.record.free or left.record.transitions != token:
            seen = "no such object" if left is None else f"token {left.record.transitions}, {left.record.describe()}"
            raise AirflowFailException(
                f"{store.subject}: expected it held by {holder}, token {token}; saw {seen}. The section was not alone"
                " to its end: check what it wrote, and lengthen lease_seconds."
            )
        self.log.info("%s is free", store.subject)

    def _held(self) -> tuple[str, str, str, int]:
        try:
            return self.lock["namespace"], self.lock["lock_name"], self.lock["holder"], int(self.lock["token"])
        except (KeyError, TypeError, ValueError) as error:
            raise ConfigurationError(
                "parameter 'lock'", expected="what LockAcquireOperator returned", seen=repr(self.lock)[:200],
                action="Pass acquire.output.",
            ) from error
