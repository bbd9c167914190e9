"""What must hold before a rollout starts. Pure: each check returns its reason, and all are reported at once."""

from __future__ import annotations

from collections.abc import Iterator

from airflow_provider_ragops.contract import (
    NO_VERSION,
    TAG_COMPLETED,
    TAG_GATE_CHAMPION,
    TAG_GATE_VERDICT,
    TAG_PARTITION,
    TAG_QUARANTINED,
    Partition,
)
from airflow_provider_ragops.exceptions import ReleaseRefusedError
from airflow_provider_ragops.promotion.registry import VersionInfo
from airflow_provider_ragops.release.record import ReleaseRecord
from airflow_provider_ragops.rollout.status import Rollout


def require_releasable(candidate: VersionInfo, record: ReleaseRecord) -> None:
    """:raises ReleaseRefusedError: with every reason, when the candidate may not go where the record stands."""
    reasons = list(_objections(candidate, record))
    if reasons:
        raise ReleaseRefusedError(
            f"release of version {candidate.version} of {candidate.model}", expected="a releasable candidate",
            seen="; ".join(reasons), action="Nothing was touched; the champion stays.",
        )


def _objections(candidate: VersionInfo, record: ReleaseRecord) -> Iterator[str]:
    tags = candidate.tags
    if record.hold:
        yield f"the target is on hold: {record.hold}"
    if TAG_COMPLETED not in tags:
        yield f"it has no completion marker (tag {TAG_COMPLETED})"
    if tags.get(TAG_GATE_VERDICT) != "promote":
        yield f"the gate said {tags.get(TAG_GATE_VERDICT, 'nothing')}, not promote"
    judged, serving = tags.get(TAG_GATE_CHAMPION, NO_VERSION), record.to_version or NO_VERSION
    if judged != serving:
        yield f"the gate judged it against version {judged}, but {serving} is serving now: evaluate again"
    if TAG_QUARANTINED in tags:
        yield f"it is quarantined: {tags[TAG_QUARANTINED]}"
    partition = tags.get(TAG_PARTITION, "")
    if not partition:
        yield f"it does not say which partition it was trained for (tag {TAG_PARTITION})"
    elif record.newest_partition and Partition.parse(partition).end < Partition.parse(record.newest_partition).end:
        yield f"its partition {partition} is older than {record.newest_partition}, already released"


def require_rollable(seen: Rollout, subject: str) -> None:
    """:raises ReleaseRefusedError: when the Deployment is paused or has no pods to roll."""
    reason = "it is paused" if seen.paused else "it is scaled to 0 replicas" if seen.desired < 1 else ""
    if reason:
        raise ReleaseRefusedError(
            f"Deployment {subject}", expected="at least one replica and no pause", seen=reason,
            action="Nothing was touched. Scale or resume it, then clear this task.",
        )
