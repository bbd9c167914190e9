"""What comes of a person's request, row by row; and what a person reads who is asked to approve it."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_ragops.contract import (
    TAG_COMPLETED,
    TAG_GATE_VERDICT,
    TAG_PARTITION,
    TAG_QUARANTINED,
    ServingTarget,
)
from airflow_provider_ragops.exceptions import ReleaseRefusedError
from airflow_provider_ragops.promotion.registry import VersionInfo
from airflow_provider_ragops.release.plan import Action, Step, Wish, step_for_version, step_without_version
from airflow_provider_ragops.release.question import Facts, question
from airflow_provider_ragops.release.record import Phase, ReleaseRecord

TARGET = ServingTarget("ml-serving", "M")
GOOD = {TAG_COMPLETED: "a", TAG_GATE_VERDICT: "promote", TAG_PARTITION: "2026-01-01"}


def wish(action: Action, version: str = "") -> Wish:
    return Wish(TARGET, action, version, "because")


def info(version: str = "3", **tags: str | None) -> VersionInfo:
    return VersionInfo("M", version, f"run-{version}", {k: v for k, v in (GOOD | tags).items() if v is not None})


@pytest.mark.parametrize(("action", "version", "step"), [
    (Action.ROLL_BACK, "", Step.ROLL_BACK), (Action.HOLD, "", Step.HOLD), (Action.LIFT, "", Step.LIFT),
    (Action.RELEASE, "3", None), (Action.ROLL_BACK, "3", None),
])  # fmt: skip
def test_step_without_version(action: Action, version: str, step: Step | None) -> None:
    """Only where a version is named is there anything to ask the registry."""
    assert step_without_version(wish(action, version)) is step


@pytest.mark.parametrize(("action", "version", "told"), [
    (Action.RELEASE, "", r"^'release' of M at ml-serving.*: expected a version; saw none.*Fill in 'version'"),
    (Action.HOLD, "3", r"'hold' of version 3 of M at .*: expected no version; saw version 3.*Leave 'version' empty"),
    (Action.LIFT, "3", r"'lift the hold' of version 3 of M"),
])  # fmt: skip
def test_form_that_does_not_fit(action: Action, version: str, told: str) -> None:
    """A missing or superfluous version is refused in words that a person at the form understands."""
    with pytest.raises(ReleaseRefusedError, match=told):
        step_without_version(wish(action, version))


@pytest.mark.parametrize("action", [Action.RELEASE, Action.ROLL_BACK])
@pytest.mark.parametrize(("verdict", "step"), [
    ("promote", Step.RELEASE), ("reject", Step.APPROVE), ("not-enough-data", Step.APPROVE), (None, Step.APPROVE),
    ("being judged", Step.APPROVE),
])  # fmt: skip
def test_gate_or_approval(action: Action, verdict: str | None, step: Step) -> None:
    """No flag skips the gate: whatever it did not let pass needs a person's approval."""
    assert step_for_version(wish(action, "3"), info(**{TAG_GATE_VERDICT: verdict}), None) is step


@pytest.mark.parametrize(("tags", "told"), [
    ({TAG_QUARANTINED: "it crashed"}, "it is quarantined: it crashed"),
    ({TAG_COMPLETED: None}, "no completion marker"), ({TAG_PARTITION: None}, "which partition"),
])  # fmt: skip
@pytest.mark.parametrize("verdict", ["promote", "reject"])
def test_what_no_approval_can_help(tags: dict[str, str | None], told: str, verdict: str) -> None:
    """A quarantined version, or one without proof, is refused before anybody is asked."""
    with pytest.raises(ReleaseRefusedError, match=told):
        step_for_version(wish(Action.RELEASE, "3"), info(**tags | {TAG_GATE_VERDICT: verdict}), None)


@pytest.mark.parametrize("phase", list(Phase))
def test_version_that_serves_already(phase: Phase) -> None:
    """What serves is no news; but a release that was interrupted on its way there may be asked for again."""
    record = ReleaseRecord("M", to_version="3", phase=phase)
    if phase in (Phase.DONE, Phase.UNDONE):
        with pytest.raises(ReleaseRefusedError, match="it is what ml-serving/mlflow-serve serves now"):
            step_for_version(wish(Action.RELEASE, "3"), info(), record)
    else:
        assert step_for_version(wish(Action.RELEASE, "3"), info(), record) is Step.RELEASE
    assert step_for_version(wish(Action.RELEASE, "4"), info("4"), record) is Step.RELEASE


def asked(**changes: Any) -> str:
    candidate = info("3", **{TAG_GATE_VERDICT: "reject"})
    facts = {
        "candidate": candidate, "serving": info("2", **{TAG_PARTITION: "2025-12-01"}),
        "record": ReleaseRecord("M", to_version="2", hold="an incident"),
        "metrics": {"3": {"auc": 0.71234567, "brier": 0.2}, "2": {"auc": 0.8}},
        "report": {"reasons": ["It loses 0.09 AUC."], "numbers": {"candidate_auc": 0.7123}},
        "report_url": "http://mlflow/report",
    }
    return question(wish(Action.RELEASE, "3"), Facts(**facts | changes), "ada")


def test_question_has_the_numbers_to_decide_by() -> None:
    """Who asks and why, what serves, both versions' numbers side by side, the gate's reasons, its report, the hold."""
    text = asked()
    for told in (
        "**ada** asks to release version **3** of M at `ml-serving/mlflow-serve`, because: because",
        "Serving now: **version 2**.", "**on hold**: an incident", "| | version 3 | version 2 |",
        "| partition | 2026-01-01 | 2025-12-01 |", "| auc | 0.712346 | 0.8 |", "| brier | 0.2 | unknown |",
        "The gate said **reject** (report: http://mlflow/report).", "- It loses 0.09 AUC.", "- candidate auc: 0.7123",
    ):
        assert told in text


def test_question_about_a_first_release() -> None:
    """Nothing serves and nothing was judged: the question says so, and its table has one column."""
    bare = info("3", **{TAG_GATE_VERDICT: None})
    text = asked(candidate=bare, serving=None, record=None, metrics={}, report={}, report_url="")
    assert "Serving now: **nothing**." in text
    assert "The gate never judged version 3." in text
    assert "| | version 3 |\n|---|---|\n| partition | 2026-01-01 |\n" in text
    assert "hold" not in text
