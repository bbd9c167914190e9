"""A person's answer, as Airflow's ``ApprovalOperator`` leaves it, and what is no answer."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import pytest

from airflow_provider_ragops.exceptions import ConfigurationError
from airflow_provider_ragops.operators.approval import approval_of
from tests.unit.operators.edge import create_context

WHEN = datetime(2026, 11, 30, 10, tzinfo=timezone.utc)


def answered(**changes: Any) -> dict[str, Any]:
    return {
        "chosen_options": ["Approve"], "params_input": {}, "responded_at": WHEN,
        "responded_by_user": {"id": "7", "name": "Ada"}, "timedout": False,
    } | changes


@pytest.mark.parametrize(("person", "name"), [
    ({"id": "7", "name": "Ada"}, "Ada"), ({"id": "7", "name": None}, "7"), ({"id": "7"}, "7"),
    (None, "an unknown user"),
])  # fmt: skip
def test_approval_says_who_when_and_where(person: dict[str, Any] | None, name: str) -> None:
    """One line for the ledger: person, time and the run where the answer can be seen."""
    told = approval_of(create_context(approve=answered(responded_by_user=person)), "approve")
    assert told == f"approved by {name} at 2026-11-30 10:00:00+00:00 (d/run-1/approve)"


def test_nobody_was_asked() -> None:
    """A skipped approval is none."""
    assert approval_of(create_context(), "approve") == ""


@pytest.mark.parametrize("answer", [
    answered(chosen_options=["Reject"]), answered(chosen_options=[]), answered(chosen_options=["Approve", "Reject"]),
    "Approve", {"chosen_options": ["Approve"]}, ["Approve"], {},
])  # fmt: skip
def test_what_is_no_approval_is_refused(answer: object) -> None:
    """A rejection, and what another task left, never count as an approval: the error shows what was seen."""
    with pytest.raises(ConfigurationError, match=r"approval by task 'approve': expected the answer 'Approve'"):
        approval_of(create_context(approve=answer), "approve")
