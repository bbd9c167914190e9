"""Before the tier is touched: is there room to roll, and does the version load and answer in a pod beside it?"""

from __future__ import annotations

import logging
from typing import Any

from airflow_provider_ragops.exceptions import ReleaseRefusedError
from airflow_provider_ragops.release.record import ReleaseRecord
from airflow_provider_ragops.release.session import Session
from airflow_provider_ragops.rollout.candidate_pod import Verdict
from airflow_provider_ragops.rollout.feasibility import Feasibility, Fit, strategy_for
from airflow_provider_ragops.rollout.plan import USUAL, Strategy

log = logging.getLogger(__name__)
Json = dict[str, Any]


def strategy_after_blessing(
    session: Session, record: ReleaseRecord, found: Json, version: str, example: Json,
) -> Strategy:
    """How to roll; where a pod more has room, the version has first shown there that it loads and answers.

    :raises ReleaseRefusedError: when there is no room and the target does not allow one pod less, or when the version
        does not load or answers badly. Nothing was touched.
    """
    # First: what a killed try left there may be what has the room.
    session.updater.sweep(session.check)
    fit = session.updater.feasibility(found)
    log.info("room for one pod more: %s: %s", fit.state, fit.reason)
    strategy = _strategy(session, record, fit)
    if strategy is not USUAL or session.blessing_timeout is None:
        log.warning("version %s is not tried beside the tier first", version)
        return strategy
    blessing = session.updater.bless(
        found, version, example, token=session.fence.token, timeout=session.blessing_timeout, guard=session.check,
    )
    if blessing.state is Verdict.NOT_BLESSED:
        raise ReleaseRefusedError(
            f"release of version {version} to {session.target.slug}",
            expected="it to load and answer in a pod beside the tier", seen=blessing.reason,
            action="Nothing was touched; the champion stays. Its log is above; train another version.",
        )
    if blessing.state is Verdict.NO_ROOM:
        return _strategy(session, record, Feasibility(Fit.NO, blessing.reason))
    if blessing.state is Verdict.NOT_POSSIBLE:
        log.warning("version %s could not be tried beside the tier: %s", version, blessing.reason)
    return strategy


def _strategy(session: Session, record: ReleaseRecord, fit: Feasibility) -> Strategy:
    target = session.target
    return strategy_for(
        fit, allow_unavailable=target.allow_unavailable, subject=target.slug, serving=bool(record.to_version),
    )
