"""What must hold before a rollout starts. Pure: each check returns its reason, and all are reported at once."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from airflow_provider_ragops.contract import (
    NO_VERSION,
    TAG_COMPLETED,
    TAG_GATE_CHAMPION,
    TAG_GATE_CHAMPION_RUN,
    TAG_GATE_VERDICT,
    TAG_PARTITION,
    TAG_QUARANTINED,
    Partition,
)
from airflow_provider_ragops.exceptions import ReleaseRefusedError
from airflow_provider_ragops.promotion.registry import VersionInfo
from airflow_provider_ragops.release.record import ReleaseRecord
from airflow_provider_ragops.release.request import ReleaseRequest
from airflow_provider_ragops.rollout.reading import read_rollout
from airflow_provider_ragops.rollout.shutdown import template_fault

Json = dict[str, Any]


def require_releasable(
    candidate: VersionInfo, record: ReleaseRecord, request: ReleaseRequest, serving_run: str | None = None,
) -> None:
    """Refuse what may not go where the record stands.

    :param serving_run: training run of the version that serves, where the registry knows it.
    :raises ReleaseRefusedError: with every reason.
    """
    reasons = [*faults_of_version(candidate, request)]
    if not request.manual:
        reasons += _of_order(candidate, record, serving_run)
    if reasons:
        raise ReleaseRefusedError(
            f"release of version {candidate.version} of {candidate.model}", expected="a releasable candidate",
            seen="; ".join(reasons), action="Nothing was touched; the champion stays.",
        )


def faults_of_version(candidate: VersionInfo, request: ReleaseRequest) -> Iterator[str]:
    """What no one can wave through, but for a verdict that a person's approval stands in for."""
    tags = candidate.tags
    if TAG_COMPLETED not in tags:
        yield f"it has no completion marker (tag {TAG_COMPLETED})"
    if TAG_QUARANTINED in tags:
        yield f"it is quarantined: {tags[TAG_QUARANTINED]}"
    approved = request.manual and request.approval
    if tags.get(TAG_GATE_VERDICT) != "promote" and not approved:
        yield f"the gate said {tags.get(TAG_GATE_VERDICT, 'nothing')}, not promote"
    if not tags.get(TAG_PARTITION):
        yield f"it does not say which partition it was trained for (tag {TAG_PARTITION})"


def _of_order(candidate: VersionInfo, record: ReleaseRecord, serving_run: str | None) -> Iterator[str]:
    """What an automatic release must respect: the hold, the champion that it was judged against, the newest data."""
    tags = candidate.tags
    if record.hold:
        yield f"the target is on hold: {record.hold} (a person lifts it: DAG model_release, action 'lift the hold')"
    judged, serving = tags.get(TAG_GATE_CHAMPION, NO_VERSION), record.to_version or NO_VERSION
    if judged != serving:
        yield f"the gate judged it against version {judged}, but {serving} is serving now: evaluate again"
    judged_run = tags.get(TAG_GATE_CHAMPION_RUN, NO_VERSION)
    if serving_run and judged_run not in (NO_VERSION, serving_run):
        yield f"the gate judged it against an earlier version {judged} (run {judged_run}): the model was made anew"
    partition = tags.get(TAG_PARTITION)
    if partition and record.newest_partition and _end(partition) < _end(record.newest_partition):
        yield f"its partition {partition} is older than {record.newest_partition}, already released"


def _end(partition: str) -> datetime:
    return Partition.parse(partition).end


def require_rollable(found: Json, container: str, subject: str) -> None:
    """:raises ReleaseRefusedError: when the Deployment is paused, has no pods to roll, or cuts requests off."""
    seen = read_rollout(found, container)
    reason = "it is paused" if seen.paused else "it is scaled to 0 replicas" if seen.desired < 1 else ""
    reason = reason or template_fault(found)
    if reason:
        raise ReleaseRefusedError(
            f"Deployment {subject}", expected="replicas, no pause, and pods that stop in peace", seen=reason,
            action="Nothing was touched. Scale, resume or correct it, then clear this task.",
        )
