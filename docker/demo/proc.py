"""Read ``/proc``: is this still the process that we started, and which others belong to it."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

BOOT = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True)
class Stat:
    pid: int
    parent: int
    session: int
    started: int  # clock ticks since boot: with the pid, the identity of a process
    state: str


def stat(pid: int) -> Stat | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The command may hold spaces and parentheses: fields are counted from the last one.
    fields = text[text.rindex(")") + 2 :].split()
    return Stat(pid, int(fields[1]), int(fields[3]), int(fields[19]), fields[0])


def boot_id() -> str:
    return BOOT.read_text().strip()


def alive(pid: int, started: int) -> bool:
    """True while that very process runs: a pid that was given out again, or a zombie, is not it."""
    seen = stat(pid)
    return seen is not None and seen.started == started and seen.state != "Z"


def family(pid: int, started: int) -> list[Stat]:
    """The process, its descendants, and all of its session that are not older than it."""
    every = [seen for entry in Path("/proc").iterdir() if entry.name.isdigit() and (seen := stat(int(entry.name)))]
    known = {pid} if alive(pid, started) else set()
    known |= {one.pid for one in every if one.session == pid and one.started >= started}
    while more := {one.pid for one in every if one.parent in known} - known:
        known |= more
    return [one for one in every if one.pid in known and one.state != "Z"]


def end(pid: int, started: int, *, patience: float = 20.0) -> None:
    """Ask the whole family to stop, then kill what is left. Safe to repeat.

    Airflow's scheduler and MLflow's server need their children for an orderly end, so the leader is asked first.
    """
    members = family(pid, started)
    leader = [one for one in members if one.pid == pid]
    _signal(leader, signal.SIGINT)
    _gone(leader, patience / 2)
    for number in (signal.SIGTERM, signal.SIGKILL):
        _signal(members := _running(members, family(pid, started)), number)
        _gone(members, patience / 2)


def _running(*groups: Iterable[Stat]) -> list[Stat]:
    return [one for one in dict.fromkeys(one for group in groups for one in group) if alive(one.pid, one.started)]


def _signal(members: Iterable[Stat], number: signal.Signals) -> None:
    for one in members:
        if alive(one.pid, one.started):
            try:
                os.kill(one.pid, number)
            except ProcessLookupError:
                continue


def _gone(members: list[Stat], patience: float) -> bool:
    deadline = time.monotonic() + patience
    while _running(members):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True
