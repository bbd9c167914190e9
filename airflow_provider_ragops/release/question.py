"""What a person must know to approve a version that the gate did not: as Markdown for Airflow's form. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from airflow_provider_ragops.contract import TAG_GATE_VERDICT, TAG_PARTITION
from airflow_provider_ragops.promotion.registry import VersionInfo
from airflow_provider_ragops.release.plan import Wish
from airflow_provider_ragops.release.record import ReleaseRecord

_UNKNOWN = "unknown"


@dataclass(frozen=True)
class Facts:
    """What was read for the question.

    :param serving: the version that serves now; None where nothing does.
    :param metrics: by version.
    :param report: the gate's report as JSON; empty where there is none.
    :param report_url: where a person reads it, or why it can't be read.
    """

    candidate: VersionInfo
    serving: VersionInfo | None
    record: ReleaseRecord | None
    metrics: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    report: Mapping[str, Any] = field(default_factory=dict)
    report_url: str = ""


def question(wish: Wish, facts: Facts, person: str) -> str:
    """:param person: who asks."""
    asked = f"**{person or 'Someone'}** asks to {wish.action.value} version **{wish.version}** of {wish.target.model}"
    lines = [
        f"{asked} at `{wish.target.slug}`, because: {wish.reason}", "",
        *_state(facts), "", *_numbers(wish, facts), "", *_verdict(wish, facts), "",
        "*Approve* releases it at once, pod by pod. *Reject* ends this run; nothing is touched.",
    ]
    return "\n".join(lines)


def _state(facts: Facts) -> Iterator[str]:
    record = facts.record
    serving = f"version {facts.serving.version}" if facts.serving else "nothing"
    yield f"Serving now: **{serving}**."
    if record and record.hold:
        yield f"The target is **on hold**: {record.hold} (this release goes on all the same)."


def _numbers(wish: Wish, facts: Facts) -> Iterator[str]:
    """A table of the training runs' metrics, side by side."""
    versions = [facts.candidate, *([facts.serving] if facts.serving else [])]
    yield "| | " + " | ".join(f"version {each.version}" for each in versions) + " |"
    yield "|---" * (len(versions) + 1) + "|"
    yield _row("partition", [each.tags.get(TAG_PARTITION, _UNKNOWN) for each in versions])
    names = sorted(facts.metrics.get(wish.version, {}))
    for name in names:
        yield _row(name, [_shown(facts.metrics.get(each.version, {}).get(name)) for each in versions])


def _row(name: str, values: list[str]) -> str:
    return f"| {name} | " + " | ".join(values) + " |"


def _shown(value: float | None) -> str:
    return _UNKNOWN if value is None else f"{value:.6g}"


def _verdict(wish: Wish, facts: Facts) -> Iterator[str]:
    verdict = facts.candidate.tags.get(TAG_GATE_VERDICT)
    if not verdict:
        yield f"The gate never judged version {wish.version}."
        return
    yield f"The gate said **{verdict}** (report: {facts.report_url or _UNKNOWN})."
    for reason in facts.report.get("reasons", ()):
        yield f"- {reason}"
    for name, value in facts.report.get("numbers", {}).items():
        yield f"- {name.replace('_', ' ')}: {value:.6g}"
