"""The truth table of ADR 0003: phase, template, pods, alias and ledger, row by row."""

from __future__ import annotations

import itertools

import pytest

from airflow_provider_ragops.release.reconcile import Need, World, closings, decide
from airflow_provider_ragops.release.record import MOVING, Phase, ReleaseRecord


def make_record(phase: Phase, to: str = "2", before: str = "1") -> ReleaseRecord:
    return ReleaseRecord("M", 7, "r1", before, to, before, phase=phase)


def see(
    phase: Phase | None, template: str, pods: str, alias: str, ledger: str = "", *, late: bool = False,
    lost: bool = False,
) -> World:
    """A world in few words; ``pods`` and ``ledger`` are lists parted by spaces."""
    record = make_record(phase) if phase else None
    return World(record, template, frozenset(pods.split()), alias, late, lost, tuple(ledger.split()))


DONE, VERIFIED, UNDONE = Phase.DONE, Phase.VERIFIED, Phase.UNDONE

ROWS = [
    # a world, who is wanted -> need
    (see(None, "", "", ""), "2", Need.NOTHING),
    (see(None, "1", "1", ""), "2", Need.REFUSE),
    (see(None, "", "", "1"), "2", Need.REFUSE),
    (see(None, "", "", "", "r0"), "2", Need.CLOSE),
    (World(ReleaseRecord("M", 1), "", frozenset({""})), "2", Need.NOTHING),
    (see(DONE, "2", "2", "2"), "3", Need.NOTHING),
    (see(DONE, "2", "2", "2"), "2", Need.NOTHING),
    (see(DONE, "2", "2", "2"), "", Need.NOTHING),
    (see(DONE, "2", "2", "2", "r1"), "3", Need.CLOSE),
    (see(DONE, "2", "2", "2", "other"), "3", Need.CLOSE),
    (see(DONE, "2", "1 2", "2"), "3", Need.AWAIT),
    (see(DONE, "2", "2", "1"), "3", Need.REFUSE),
    (see(DONE, "2", "2", "1", late=True), "3", Need.SET_ALIAS),
    (see(DONE, "2", "2", ""), "3", Need.REFUSE),
    (see(DONE, "2", "2", "1", "r1"), "3", Need.REFUSE),
    (see(DONE, "2", "2", "", lost=True), "3", Need.REFUSE),
    (see(UNDONE, "2", "2", "2"), "3", Need.NOTHING),
    (see(UNDONE, "2", "2", "2", "r1"), "3", Need.CLOSE),
    (see(UNDONE, "2", "2", "1", late=True), "", Need.SET_ALIAS),
    (World(make_record(UNDONE, to="", before="2"), "", frozenset({""})), "3", Need.NOTHING),
    (see(VERIFIED, "2", "2", "1"), "3", Need.PROMOTE),
    (see(VERIFIED, "2", "2", "2"), "3", Need.PROMOTE),
    (see(VERIFIED, "2", "2", "", "r1"), "", Need.PROMOTE),
    (see(VERIFIED, "2", "1 2", "1"), "3", Need.AWAIT),
    (see(VERIFIED, "2", "2", "9"), "3", Need.REFUSE),
    (see(VERIFIED, "2", "2", "9", late=True), "3", Need.PROMOTE),
    (see(Phase.ROLLING, "2", "1 2", ""), "2", Need.RESUME),
    (see(Phase.ROLLING, "2", "2", ""), "2", Need.RESUME),
    (see(Phase.ROLLING, "2", "1 2", ""), "3", Need.UNDO),
    (see(Phase.ROLLING, "2", "2", ""), "", Need.UNDO),
    (see(Phase.UNDOING, "2", "1 2", ""), "2", Need.UNDO),
    (see(Phase.UNDOING, "2", "2", ""), "3", Need.UNDO),
    (see(Phase.ROLLING_BACK, "2", "1 2", ""), "2", Need.UNDO),
    (see(Phase.ROLLING_BACK, "2", "2", ""), "", Need.UNDO),
]


@pytest.mark.parametrize(("seen", "wanted", "need"), ROWS)
def test_each_row_of_the_table(seen: World, wanted: str, need: Need) -> None:
    """What was seen decides what is needed, and the reason is told."""
    decision = decide(seen, wanted)
    assert decision.need is need
    assert decision.reason


@pytest.mark.parametrize(("lost", "need"), [(True, Need.NOTHING), (False, Need.REFUSE)])
def test_person_may_replace_a_deleted_champion(lost: bool, need: Need) -> None:
    """M6: nobody but a person goes on from a champion that was deleted; a missing alias alone is no such thing."""
    seen = see(DONE, "2", "2", "", lost=lost)
    assert decide(seen, "3", manual=True).need is need
    assert "someone" in decide(see(DONE, "2", "2", ""), "3").reason
    assert "has no version" in decide(see(DONE, "2", "2", "", lost=True), "3").reason


@pytest.mark.parametrize("phase", list(Phase))
@pytest.mark.parametrize("template", ["", "1", "3"])
def test_edited_template_is_refused_in_every_phase(phase: Phase, template: str) -> None:
    """Whatever else is seen, a template that is not the record's is a person's edit."""
    assert decide(see(phase, template, "1 2", "2", "r1", late=True), "2").need is Need.REFUSE


def test_every_combination_has_one_decision(evidence) -> None:
    """All phases, templates, pods, aliases and ledgers: one decision; nothing starts unless all agree."""
    axes = itertools.product(
        [None, *Phase], ["", "1", "2"], ["", "1", "2", "1 2"], ["", "1", "2", "9"], ["", "r1", "other r1"],
        [False, True], ["", "2", "3"],
    )
    count = 0
    for phase, template, pods, alias, ledger, late, wanted in axes:
        decision = decide(see(phase, template, pods, alias, ledger, late=late), wanted)
        count += 1
        if decision.need is Need.NOTHING and phase:
            assert (template, alias, ledger) == ("2", "2", "")
            assert set(pods.split()) <= {"2"}
        if decision.need is Need.RESUME:
            assert (phase, wanted, template) == (Phase.ROLLING, "2", "2")
        if phase in MOVING and template == "2":
            assert decision.need in (Need.RESUME, Need.UNDO)
    evidence["schedules"] += count
    assert count == 7 * 3 * 4 * 4 * 3 * 2 * 3


@pytest.mark.parametrize(("phase", "outcome"), [(DONE, "released"), (UNDONE, "undone")])
def test_open_entry_of_the_record_is_closed_as_its_phase_says(phase: Phase, outcome: str) -> None:
    """The record is the truth: its own entry ended as it says, another one never touched the target."""
    closed = list(closings(make_record(phase), ("r1", "r9")))
    assert [(each.release_id, each.outcome) for each in closed] == [("r1", outcome), ("r9", "aborted")]
