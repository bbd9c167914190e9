"""The README's own DAG is code that must work."""

from __future__ import annotations

import re
import subprocess
import sys

from demo.paths import ROOT


def test_the_dag_of_the_readme_parses() -> None:
    """Copied as it stands, it makes a DAG with its four tasks in order."""
    code = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert code
    script = code[1] + "\nprint([task.task_id for task in release.dag.topological_sort()])\n"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "['train', 'evaluate', 'gate', 'release']"


def test_pictures_are_there() -> None:
    """Every picture that the README shows is in the repository."""
    pictures = re.findall(r"!\[[^]]*\]\(([^)]+)\)", (ROOT / "README.md").read_text())
    assert pictures
    assert [name for name in pictures if not (ROOT / name).is_file()] == []
