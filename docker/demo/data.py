"""The purchases of the demo: CDNOW, which the wheel of the library Lifetimes carries as data."""

from __future__ import annotations

import sys
from pathlib import Path

from demo.command import run
from demo.paths import DATA

WHEEL = "Lifetimes-0.11.3-py3-none-any.whl"
REQUIREMENT = "Lifetimes==0.11.3"


def wheel(folder: Path = DATA) -> Path:
    """The wheel's path; it is downloaded once and never installed (the library is unmaintained and not needed).

    :raises DemoError: when the package index has not delivered it within five minutes.
    """
    path = folder / WHEEL
    if not path.exists():
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", folder, REQUIREMENT]
        run("data", command, folder / "download.log", deadline=300)
    return path
