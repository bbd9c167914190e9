"""The checker of histories must find what is not serial: each row is a history with one fault, or none."""

from __future__ import annotations

import pytest

from tests.system.serial import Event, faults


def lock(revision: int, holder: str, number: int) -> Event:
    return Event(revision, holder, number)


def record(revision: int, token: int) -> Event:
    return Event(revision, None, token)


START = [record(1, 5), lock(2, "", 3)]


@pytest.mark.parametrize(("events", "told"), [
    ([lock(3, "a", 4), record(4, 6), record(5, 6), lock(6, "", 4), lock(7, "b", 5), record(8, 7)], ""),
    ([lock(3, "a", 4), record(4, 6), lock(5, "b", 5), record(6, 7)], ""),  # taken over from a dead holder
    ([lock(3, "a", 4), lock(4, "a", 4), record(5, 6)], ""),  # renewed
    ([record(3, 6)], "token 6 was written while nobody held the lock"),
    ([lock(3, "a", 4), record(4, 6), lock(5, "b", 5), record(6, 6)], "token 6 of a was written in the hold of b"),
    ([lock(3, "a", 4), record(4, 4)], "token 4 follows token 5"),
    ([lock(3, "a", 4), lock(4, "b", 4)], "hold 4 of b follows hold 4"),
    ([lock(3, "a", 4), lock(4, "", 4), lock(5, "b", 6)], "hold 6 of b follows hold 4"),
])  # fmt: skip
def test_faults_of_a_history(events: list[Event], told: str) -> None:
    """A2: overlapping, unlocked or falling writes are found, and a serial history has none."""
    assert faults(sorted(START + events)) == ([told] if told else [])
