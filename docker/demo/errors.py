"""The one error that a person sees: what failed, and where to look."""

from __future__ import annotations

from pathlib import Path


class DemoError(Exception):
    """A step can't go on; the message says what was expected, what was seen and what to do."""


def tail(log: Path, lines: int = 15) -> str:
    """The last lines of a log, indented, for an error message."""
    try:
        text = log.read_text(errors="replace").splitlines()[-lines:]
    except FileNotFoundError:
        return "    (no log)"
    return "\n".join(f"    {line}" for line in text)
