"""Run a program to its end, with a log and a deadline; nothing of it outlives an interruption."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from demo import proc
from demo.errors import DemoError, tail


def run(
    name: str, command: Sequence[object], log: Path, *, deadline: float, env: Mapping[str, str] | None = None
) -> None:
    """Run ``command`` with its output in ``log``.

    :raises DemoError: when it fails, or is not done after ``deadline`` seconds; it and its children are ended then.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as output:
        process = subprocess.Popen(
            [str(word) for word in command], env=os.environ | dict(env or {}), stdin=subprocess.DEVNULL,
            stdout=output, stderr=output, start_new_session=True,
        )
        begun = proc.stat(process.pid)
        try:
            code = process.wait(deadline)
        except subprocess.TimeoutExpired as error:
            _end(process, begun)
            raise DemoError(f"{name}: not done after {deadline:.0f} s. Log {log} ends:\n{tail(log)}") from error
        except BaseException:
            _end(process, begun)
            raise
    if code:
        raise DemoError(f"{name}: ended with code {code}. Log {log} ends:\n{tail(log)}")


def _end(process: subprocess.Popen[bytes], begun: proc.Stat | None) -> None:
    if begun:
        proc.end(begun.pid, begun.started)
    process.poll()
