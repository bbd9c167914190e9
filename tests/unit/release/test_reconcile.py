"""The truth table of ADR 0003, row by row."""

from __future__ import annotations

import pytest

from airflow_provider_ragops.release.reconcile import Need, decide
from airflow_provider_ragops.release.record import Phase, ReleaseRecord


def make_record(phase: Phase, to: str = "2", before: str = "1") -> ReleaseRecord:
    return ReleaseRecord("M", 7, "r1", before, to, before, phase=phase)


ROWS = [
    # record, template, alias, wanted -> need
    (None, "", "", "2", Need.NOTHING),
    (None, "1", "", "2", Need.REFUSE),
    (None, "", "1", "2", Need.REFUSE),
    (ReleaseRecord("M", 1), "", "", "2", Need.NOTHING),
    (make_record(Phase.DONE), "2", "2", "3", Need.NOTHING),
    (make_record(Phase.DONE), "2", "2", "2", Need.NOTHING),
    (make_record(Phase.DONE), "3", "2", "3", Need.REFUSE),
    (make_record(Phase.DONE), "", "2", "3", Need.REFUSE),
    (make_record(Phase.DONE), "2", "1", "3", Need.REFUSE),
    (make_record(Phase.DONE), "2", "", "3", Need.REFUSE),
    (make_record(Phase.UNDONE), "2", "2", "3", Need.NOTHING),
    (make_record(Phase.UNDONE, to="", before="2"), "", "", "3", Need.NOTHING),
    (make_record(Phase.ROLLING), "2", "1", "2", Need.RESUME),
    (make_record(Phase.ROLLING), "2", "1", "3", Need.UNDO),
    (make_record(Phase.ROLLING), "1", "1", "2", Need.REFUSE),
    (make_record(Phase.UNDOING), "2", "2", "2", Need.UNDO),
    (make_record(Phase.UNDOING), "2", "2", "3", Need.UNDO),
    (make_record(Phase.VERIFIED), "2", "1", "3", Need.SET_ALIAS),
    (make_record(Phase.VERIFIED), "2", "2", "3", Need.SET_ALIAS),
    (make_record(Phase.VERIFIED), "2", "", "3", Need.SET_ALIAS),
    (make_record(Phase.VERIFIED), "2", "9", "3", Need.REFUSE),
]


@pytest.mark.parametrize(("record", "template", "alias", "wanted", "need"), ROWS)
def test_each_row_of_the_table(
    record: ReleaseRecord | None, template: str, alias: str, wanted: str, need: Need,
) -> None:
    """Record, template and alias decide what is needed; a refusal says what was seen."""
    decision = decide(record, template, alias, wanted)
    assert decision.need is need
    assert decision.reason
