"""Try every mutant; ``make mutants``. Words as arguments choose those whose name, file or reason holds one of them.

Fails where one survives, where one no longer fits the tree, or where its tests fail without it.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tests.mutants.catalogue import Mutant, load, selects, staleness
from tests.mutants.trial import GOOD, PARTS, UNFIT, Ran, Result, copy_tree, run_tests, tried

ROOT = Path(__file__).resolve().parents[2]
REPORT = ROOT / "build" / "mutants.json"
BASELINE_TIMEOUT = 900.0


def chosen(mutants: Sequence[Mutant], words: Sequence[str]) -> list[Mutant]:
    return [each for each in mutants if not words or any(w in f"{each.name} {each.file} {each.why}" for w in words)]


async def try_all(
    mutants: Sequence[Mutant], root: Path, scratch: Path, workers: int, tell: Callable[[Result], None],
    parts: Sequence[str] = PARTS,
) -> list[Result]:
    """Each worker has a copy; one of them first runs all the tests without any mutant."""
    # All copies of one state: others may be editing the tree.
    first = copy_tree(root, scratch / "0", parts)
    folders = [first, *(copy_tree(first, scratch / str(number), parts) for number in range(1, workers))]
    waiting, results = list(mutants)[::-1], []
    baseline: list[Ran] = []

    async def work(folder: Path) -> None:
        if folder == first:
            tests = {test for mutant in mutants if not staleness(mutant, folder) for test in mutant.tests}
            baseline.append(await run_tests(folder, sorted(tests), timeout=BASELINE_TIMEOUT))
        while waiting:
            result = await tried(waiting.pop(), folder)
            tell(result)
            results.append(result)

    await asyncio.gather(*map(work, folders))
    order = {mutant.name: number for number, mutant in enumerate(mutants)}
    return sorted((_with_baseline(each, baseline[0]) for each in results), key=lambda each: order[each.mutant.name])


def _with_baseline(result: Result, baseline: Ran) -> Result:
    """A test that fails without the mutant proves nothing about it."""
    broken = [test for test in baseline.bad for each in result.mutant.tests if selects(each, test)]
    if baseline.code not in (0, 1):
        broken = [f"pytest ended with {baseline.code}: {baseline.tail}"]
    if broken:
        return Result(result.mutant, UNFIT, f"fails without the mutant: {broken[0]}", result.seconds)
    return result


def report(results: Sequence[Result], seconds: float) -> dict[str, Any]:
    """What ``build/mutants.json`` holds."""
    killed = [each for each in results if each.outcome in GOOD]
    return {
        "counts": {"mutants": len(results), **Counter(each.outcome for each in results)},
        "faults": dict(sorted(Counter(fault for each in killed for fault in each.mutant.faults).items())),
        "seconds": round(seconds, 1),
        "mutants": [
            {"name": each.mutant.name, "why": each.mutant.why, "file": each.mutant.file, "outcome": each.outcome,
             "detail": each.detail, "seconds": each.seconds}
            for each in results
        ],
    }  # fmt: skip


def line(result: Result) -> str:
    detail = result.detail.strip().replace("\n", "\n    ")
    return f"{result.outcome:<18} {result.mutant.name:<44} {result.seconds:5.1f} s  {detail}\n"


async def run(mutants: Sequence[Mutant]) -> list[Result]:
    workers = min(len(os.sched_getaffinity(0)), len(mutants))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, asyncio.current_task().cancel)  # type: ignore[union-attr]
    with tempfile.TemporaryDirectory(prefix="mutants-", ignore_cleanup_errors=True) as scratch:
        return await try_all(
            mutants, ROOT, Path(scratch), workers, lambda result: print_now(line(result)),
        )


def print_now(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def main(words: Sequence[str]) -> int:
    began, mutants = time.monotonic(), chosen(load(), words)
    if not mutants:
        raise SystemExit(f"no mutant's name, file or reason holds {' or '.join(words)}")
    results = asyncio.run(run(mutants))
    found = report(results, time.monotonic() - began)
    REPORT.parent.mkdir(exist_ok=True)
    REPORT.write_text(json.dumps(found, indent=2) + "\n")
    bad = [each for each in results if each.outcome not in GOOD]
    counts = ", ".join(f"{count} {name}" for name, count in found["counts"].items())
    print_now("".join(["\n", *map(line, bad), f"{counts} in {found['seconds']:g} s; {REPORT}\n"]))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
