"""What a verdict changes in the registry: the candidate's tags, and the alias of the version that waits for release."""

from __future__ import annotations

import logging

from airflow_provider_ragops.contract import (
    NO_VERSION,
    TAG_GATE_CHAMPION,
    TAG_GATE_CHAMPION_RUN,
    TAG_GATE_REPORT,
    TAG_GATE_VERDICT,
    TAG_PARTITION,
    Partition,
)
from airflow_provider_ragops.promotion.registry import ModelRegistry
from airflow_provider_ragops.promotion.report import PROMOTE, GateReport

log = logging.getLogger(__name__)


def tag(registry: ModelRegistry, model: str, report: GateReport, uri: str) -> None:
    """Tag the candidate; the verdict comes last, because it is what others look for.

    :param uri: where the report lies.
    """
    # Judged before, against another champion: that verdict must not stand beside the new champion's number.
    registry.set_tags(model, report.candidate, {TAG_GATE_VERDICT: "being judged"})
    tags = {
        TAG_GATE_CHAMPION: report.champion or NO_VERSION,
        TAG_GATE_CHAMPION_RUN: report.champion_run or NO_VERSION,
        TAG_GATE_REPORT: uri,
        TAG_GATE_VERDICT: report.verdict,
    }
    registry.set_tags(model, report.candidate, tags)


def move_challenger(registry: ModelRegistry, model: str, report: GateReport, alias: str) -> None:
    """Give the alias to a candidate that passed, and take it from one that did not.

    An older run that finishes late does not push aside the candidate of a newer partition.
    """
    waiting = registry.alias(model, alias)
    if report.verdict != PROMOTE:
        if waiting == report.candidate:
            registry.delete_alias(model, alias)
    elif waiting and _end_of(registry, model, waiting) > _end_of(registry, model, report.candidate):
        log.info("version %s of a newer partition waits as %r: it stays", waiting, alias)
    else:
        registry.set_alias(model, alias, report.candidate)


def _end_of(registry: ModelRegistry, model: str, version: str) -> float:
    """When the partition of a version ends; before all others where it names none."""
    partition = registry.version(model, version).tags.get(TAG_PARTITION)
    return Partition.parse(partition).end.timestamp() if partition else float("-inf")
