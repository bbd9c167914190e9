"""Look after a serving target between releases: repair what a dead release left, report what a person changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from airflow_provider_ragops.contract import ServingTarget
from airflow_provider_ragops.exceptions import LockHeldError, ReleaseRefusedError
from airflow_provider_ragops.locking.times import LockTimes
from airflow_provider_ragops.operators import rendered
from airflow_provider_ragops.operators.target import ServingTargetOperator
from airflow_provider_ragops.release.repair import Finding, repair, survey

if TYPE_CHECKING:
    from airflow.sdk import Context

HELD = "held lock"
STALE_LOCK = "stale lock"
# Seconds beyond two leases that a reconcile waits for the lock.
PATIENCE = 10.0


def _no_guard(_: float) -> None:
    """A survey makes no effect."""


class ModelReconcileOperator(ServingTargetOperator):
    """Compare record, pods, alias, ledger, lock and Redis keys of a serving target, and make them agree.

    Looks first, without the lock; a whole target costs a few reads and no write. What an interrupted or paused release
    left is repaired under the lock: an unfinished rollout is taken back, a verified one promoted, an alias that was
    written late put back, an open ledger entry closed, a dead holder's lock freed, leftover keys removed. Where a
    release is running, nothing is done. What a person changed is never touched: the task fails and says what it saw,
    so that the DAG's failure callback tells someone.

    :param repair: False only reports. (templated)

    Returns ``findings``: a list of ``what``, ``reason``, ``needs_person``; empty for a whole target.
    """

    template_fields: Sequence[str] = (*ServingTargetOperator.template_fields, "repair")

    def __init__(self, *, repair: bool | str = True, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.repair = repair

    def work(self, context: Context, target: ServingTarget) -> dict[str, Any]:
        held = self._holder(target)
        findings = [held] if held else survey(self.session(target, _no_guard))
        if findings and rendered.truth("repair", self.repair):
            findings = self._repaired(context, target, held)
        for finding in findings:
            self.log.warning("%s: %s: %s", target.slug, finding.what, finding.reason)
        self._report(target, findings)
        return {"target": target.slug, "findings": [asdict(finding) for finding in findings]}

    def _holder(self, target: ServingTarget) -> Finding | None:
        stored = self.serving.lock_store(target).read()
        if stored is None or stored.record.free:
            return None
        return Finding(HELD, f"the lock is held by {stored.record.describe()}")

    def _repaired(self, context: Context, target: ServingTarget, held: Finding | None) -> list[Finding]:
        """Under the lock; a living holder is left alone, a dead one's lease ends while we wait."""
        try:
            found, _ = self.under_lock(context, target, f"reconcile {target.model}", repair)
        except LockHeldError as error:
            return [Finding(HELD, f"a release is running, nothing was done: {error.seen}")]
        stale = [Finding(STALE_LOCK, f"its holder was dead; it is free again: {held.reason}")] if held else []
        return stale + found

    def times(self) -> LockTimes:
        """A living release is not waited for: just long enough to see a dead holder's lease end."""
        times = super().times()
        return replace(times, wait=min(times.wait, 2.0 * times.lease + PATIENCE))

    @staticmethod
    def _report(target: ServingTarget, findings: list[Finding]) -> None:
        needed = [finding.reason for finding in findings if finding.needs_person]
        if needed:
            raise ReleaseRefusedError(
                f"serving target {target.slug}", expected="record, pods and alias to agree", seen="; ".join(needed),
                action="Nothing was touched. Decide which is right, and set the others to it (docs/on-call.md).",
            )
