"""What many processes believed about one lock, as they wrote it down, and an offline check of it. Pure.

Each process appends a JSON line per event, stamped by a clock that all processes of the machine share:
``wrote`` (a write of the lock was applied: ``token``, ``sent`` before the request, ``until`` when the hold ends by
it), ``releasing`` (it will believe nothing from here on), ``lost`` (it has just learned that the hold is over),
``effect`` (``token``, and ``version`` of the protected object after it).
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

Event = dict[str, Any]


@dataclass(frozen=True)
class Belief:
    """One hold: from before the write that took the lock, to when its holder stopped believing, at the latest."""

    holder: str
    token: int
    start: float
    end: float


def parse(lines: Iterable[str]) -> list[Event]:
    """Whole lines only: a process may have been killed while it wrote the last one."""
    return [json.loads(line) for line in lines if line.endswith("\n")]


def beliefs(events: Iterable[Event]) -> list[Belief]:
    """One for each holder and token, in the order of their starts."""
    found: dict[tuple[str, int], Belief] = {}
    over: dict[str, float] = {}
    for event in events:
        holder = str(event.get("holder", ""))
        if event["event"] in ("releasing", "lost"):
            over[holder] = min(event["t"], over.get(holder, event["t"]))
        if event["event"] == "wrote":
            key = (holder, event["token"])
            known = found.get(key, Belief(*key, event["sent"], event["until"]))
            found[key] = Belief(*key, min(known.start, event["sent"]), max(known.end, event["until"]))
    ended = [Belief(b.holder, b.token, b.start, min(b.end, over.get(b.holder, b.end))) for b in found.values()]
    return sorted(ended, key=lambda belief: belief.start)


def problems(events: list[Event], longest_gap: float) -> list[str]:
    """All that must not be: two holders at once, tokens that fall or repeat, a standstill, effects out of turn."""
    held = beliefs(events)
    effects = sorted((event for event in events if event["event"] == "effect"), key=lambda event: int(event["version"]))
    found = [] if held else ["nobody ever held the lock"]
    latest = held[0] if held else None
    for before, after in pairwise(held):
        assert latest
        latest = max(latest, before, key=lambda belief: belief.end)
        if after.start < latest.end:
            found.append(f"two holders at once for {latest.end - after.start:.3f} s: {latest} and {after}")
        if after.token <= before.token:
            found.append(f"the token did not grow: {before} then {after}")
        if after.start - latest.end > longest_gap:
            found.append(f"nobody held it for {after.start - latest.end:.1f} s: between {latest} and {after}")
    for before, after in pairwise(effects):
        if after["token"] < before["token"]:
            found.append(f"an effect out of turn: {before} then {after}")
    return found
