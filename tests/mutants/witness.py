"""A pytest plugin beside a copy of the tree: the tests must have loaded that copy, and the file that was mutated.

An editable install would otherwise be tested instead, and every mutant survive.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

NO_WITNESS = 7


def pytest_collection_modifyitems() -> None:
    # As --hypothesis-seed does, which imports Hypothesis also where no test needs it: a second for each mutant.
    if hypothesis := sys.modules.get("hypothesis.core"):
        hypothesis.global_force_seed = 0


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    root = Path(__file__).parent
    if exitstatus not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        return
    ours = {each.name for each in root.iterdir()}
    loaded = [
        Path(module.__file__) for name, module in list(sys.modules.items())
        if name.partition(".")[0] in ours and getattr(module, "__file__", None)
    ]
    if foreign := [file for file in loaded if not file.is_relative_to(root)]:
        pytest.exit(f"not from the copy {root}: {foreign[0]}", NO_WITNESS)
    mutated = os.environ.get("MUTATED_FILE", "")
    if mutated and root / mutated not in loaded:
        pytest.exit(f"{mutated} was never loaded", NO_WITNESS)
