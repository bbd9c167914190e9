"""The offline check of a history finds what it is for."""

from __future__ import annotations

import json
from typing import Any

from tests.history import beliefs, parse, problems


def wrote(holder: str, token: int, sent: float, until: float) -> dict[str, Any]:
    return {"t": sent + 0.1, "event": "wrote", "holder": holder, "token": token, "sent": sent, "until": until}


def ends(event: str, holder: str, t: float) -> dict[str, Any]:
    return {"t": t, "event": event, "holder": holder}


GOOD = [
    wrote("a", 1, 0.0, 3.0), wrote("a", 1, 1.0, 4.0), ends("releasing", "a", 2.0),
    wrote("b", 2, 2.1, 5.0),  # killed: it may have believed until 5
    wrote("c", 4, 8.0, 11.0), ends("lost", "c", 12.0),  # token 3 was taken by one that died before it wrote that down
    wrote("d", 5, 12.5, 15.0),
]


def test_good_history_has_no_problem() -> None:
    """L16: releases, deaths and losses with no two believers at once are no problem."""
    assert problems(GOOD, longest_gap=4.0) == []
    assert [(b.holder, b.start, b.end) for b in beliefs(GOOD)] == [
        ("a", 0.0, 2.0), ("b", 2.1, 5.0), ("c", 8.0, 11.0), ("d", 12.5, 15.0),
    ]


def test_overlap_is_found_in_any_order_of_lines() -> None:
    """L16: a seeded overlap is found, also where a paused process wrote its line down much later."""
    overlapping = [*GOOD[:4], wrote("x", 3, 4.9, 6.0), *GOOD[4:]]
    for events in (overlapping, overlapping[::-1]):
        assert len(problems(events, 4.0)) == 1
        assert "two holders at once for 0.100 s" in problems(events, 4.0)[0]


def test_overlap_with_a_hold_that_outlasts_the_next_is_found() -> None:
    """L16: a long hold overlaps every later one that starts in it, not only the next."""
    events = [wrote("a", 1, 0.0, 10.0), wrote("b", 2, 1.0, 2.0), wrote("c", 3, 3.0, 4.0)]
    assert len([problem for problem in problems(events, 4.0) if "two holders" in problem]) == 2


def test_renewal_after_the_loss_was_known_counts_no_more() -> None:
    """L16: a belief ends when its holder learned of the loss, not where its last renewal would have ended."""
    assert problems([wrote("a", 1, 0.0, 9.0), ends("lost", "a", 1.0), wrote("b", 2, 1.5, 4.0)], 4.0) == []


def test_token_that_repeats_or_falls_is_found() -> None:
    """L16: a token names one hold, and a later hold's is larger."""
    for token in (5, 4):
        assert "the token did not grow" in problems([*GOOD, wrote("e", token, 20.0, 21.0)], 9.0)[0]


def test_standstill_is_found() -> None:
    """L16: a gap without a holder that is longer than allowed, and a history in which nobody ever held."""
    assert "nobody held it for 3.0 s" in problems(GOOD, 2.9)[0]
    assert problems([], 1.0) == ["nobody ever held the lock"]


def test_effect_of_an_older_token_is_found() -> None:
    """L16: in the order of the object's versions, which are numbers and no text, tokens of effects never fall."""
    effects = [{"t": t, "event": "effect", "token": token, "version": version}
               for t, token, version in ((1, 1, "9"), (2, 2, "10"), (3, 1, "11"))]
    assert problems(GOOD + effects[:2], 4.0) == []
    assert "an effect out of turn" in problems(GOOD + effects, 4.0)[0]


def test_half_a_line_is_left_out() -> None:
    """L16: the last line of a process that was killed while writing is no event."""
    text = [json.dumps(GOOD[0]) + "\n", json.dumps(GOOD[1])[:20]]
    assert parse(text) == GOOD[:1]
