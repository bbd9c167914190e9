"""Back to the last good version, as one unit: MODEL_VERSION and the record in one write, then the pods.

The pods come back without MLflow: a rollback must work while the registry is down. Only then the books are settled
(quarantine, ledger), and the record says ``undone`` last, so that whoever comes next settles what is still open.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from airflow_provider_ragops.exceptions import TargetError
from airflow_provider_ragops.release.fence import Fence
from airflow_provider_ragops.release.record import Phase, ReleaseRecord
from airflow_provider_ragops.rollout.status import State
from airflow_provider_ragops.rollout.updater import Updater

log = logging.getLogger(__name__)


def undo(
    record: ReleaseRecord, fault: str, fence: Fence, updater: Updater, *,
    settle: Callable[[ReleaseRecord], None], timeout: float, guard: Callable[[], None],
) -> ReleaseRecord:
    """Set the target back and wait until every pod serves the last good version (or none, before a first release).

    :param fault: what was wrong with the version; empty where it only clears the way. An undo that is resumed
        keeps the fault that it was started for.
    :param settle: quarantines and closes the ledger; when MLflow does not answer, the undo stays open.
    :returns: the record in phase ``undone``.
    :raises TargetError: when the old version does not come back within ``timeout`` seconds; the record stays in
        phase ``undoing`` and the next try resumes.
    """
    back = record if record.phase is Phase.UNDOING else record.undoing(fault)
    log.warning("undo: back to version %s, because: %s", back.to_version or "none", back.fault or "it was interrupted")
    written = fence.write(back, back.to_version, drain=not back.to_version)
    # Asked for the version only: the example to send lies in MLflow.
    progress = updater.wait(written, back.to_version, None, timeout, guard, patient=True)
    if progress.state is not State.DONE:
        raise TargetError(
            f"undo to version {back.to_version or 'none'}", expected=f"its pods to be back within {timeout:g} s",
            seen=progress.reason,
            action="The record says 'undoing': the next release resumes it; look at the pods' events.",
        )
    settle(back)
    undone = back.with_phase(Phase.UNDONE)
    # The version again, now with the usual strategy: what differs from the chart's would stop a helm upgrade.
    fence.write(undone, undone.to_version)
    return undone
