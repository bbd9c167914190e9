"""Run tests in a copy of the tree, with or without a mutant."""

from __future__ import annotations

import asyncio
import compileall
import os
import py_compile
import re
import shutil
import signal
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.mutants import witness
from tests.mutants.catalogue import Mutant, staleness

PARTS = ("airflow_provider_ragops", "tests", "dags", "docker", "pyproject.toml")
# Seconds for one test, and for all tests of one mutant: most faults that hang do so on a fake clock.
TEST_TIMEOUT = 30
TRIAL_TIMEOUT = 240.0

KILLED, TIMED_OUT, SURVIVED, STALE, UNFIT = "killed", "killed by timeout", "survived", "stale", "unfit"
GOOD = (KILLED, TIMED_OUT)
_BAD = re.compile(r"^(FAILED|ERROR) (\S+::.+?)(?: - .*)?$", re.MULTILINE)


@dataclass(frozen=True)
class Ran:
    """``code`` is pytest's exit status; None where it did not end in time."""

    code: int | None
    output: str

    @property
    def failed(self) -> list[str]:
        """Tests that said no. Not those whose fixtures broke: a server that does not start notices no mutant."""
        return [test for word, test in _BAD.findall(self.output) if word == "FAILED"]

    @property
    def bad(self) -> list[str]:
        return [test for _, test in _BAD.findall(self.output)]

    @property
    def tail(self) -> str:
        return self.output[-3000:]


@dataclass(frozen=True)
class Result:
    """``detail`` is the test that killed it, or what is wrong."""

    mutant: Mutant
    outcome: str
    detail: str
    seconds: float


def copy_tree(root: Path, folder: Path, parts: Iterable[str] = PARTS) -> Path:
    """A copy whose bytecode is checked by hash: by time and size, one mutant's could be taken for the next one's."""
    folder.mkdir(parents=True)
    for part in parts:
        if (root / part).is_dir():
            shutil.copytree(root / part, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(root / part, folder / part)
    shutil.copy2(witness.__file__, folder / "witness.py")
    compileall.compile_dir(folder, quiet=1, invalidation_mode=py_compile.PycInvalidationMode.CHECKED_HASH)
    return folder


async def run_tests(folder: Path, tests: Iterable[str], *options: str, mutated: str = "",
                    timeout: float = TRIAL_TIMEOUT) -> Ran:
    """pytest in a copy, in its own process group; nothing of it is left."""
    if not (selected := [*tests]):  # to pytest that means all there are
        return Ran(0, "")
    temporary = folder.with_name(f"{folder.name}-tmp")
    temporary.mkdir(exist_ok=True)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")} | {
        "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": "0", "TMPDIR": str(temporary),
        "MUTATED_FILE": mutated,
    }  # fmt: skip
    command = [
        sys.executable, "-m", "pytest", "-q", "-rfE", "--tb=short", "--color=no", "-p", "witness", "-p", "no:randomly",
        "-p", "no:cacheprovider", "-o", f"timeout={TEST_TIMEOUT}",
        "-p", "no:anyio", "-m", "not cluster and not images", *options, *selected,
    ]  # fmt: skip
    with (temporary / "output").open("w+b") as output:
        process = await asyncio.create_subprocess_exec(
            *command, cwd=folder, env=environment, stdout=output, stderr=output, start_new_session=True,
        )
        code = None
        try:
            with suppress(TimeoutError):
                code = await asyncio.wait_for(process.wait(), timeout)
        finally:
            if process.returncode is None:
                os.killpg(process.pid, signal.SIGKILL)
                await process.wait()
        output.seek(0)
        return Ran(code, output.read().decode("utf-8", "replace"))


async def tried(mutant: Mutant, folder: Path) -> Result:
    """Sow the mutant in the copy, run its tests, and take it out again."""
    began = time.monotonic()
    if fault := staleness(mutant, folder):
        return Result(mutant, STALE, fault, 0.0)
    file = folder / mutant.file
    text = file.read_text()
    file.write_text(mutant.apply(text))
    try:
        ran = await run_tests(folder, mutant.tests, "-x", mutated=mutant.file)
    finally:
        file.write_text(text)
    outcome, detail = _judged(ran)
    return Result(mutant, outcome, detail, round(time.monotonic() - began, 1))


def _judged(ran: Ran) -> tuple[str, str]:
    if ran.code is None:
        return TIMED_OUT, f"no end after {TRIAL_TIMEOUT:g} s"
    if ran.code == pytest.ExitCode.OK:
        return SURVIVED, "all its tests passed"
    if ran.code == pytest.ExitCode.TESTS_FAILED and ran.failed:
        return (TIMED_OUT if "Timeout (>" in ran.output else KILLED), ran.failed[0]
    return UNFIT, f"pytest ended with {ran.code}: {ran.tail}"
