"""Carry this machine's pip settings into an image build: ``python pip_settings.py OUTPUT``.

Writes a pip.conf to OUTPUT and prints the mounts that it needs, one ``SOURCE:TARGET`` a line. The build mounts files,
copies none, and what it mounts has other names inside: no address or path of this machine ends up in an image.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote, urlsplit

CARRIED = (
    "cert", "constraint", "extra-index-url", "find-links", "index-url", "no-index", "proxy", "retries", "timeout",
    "default-timeout", "trusted-host",
)
INSIDE = "/mnt/pip"


def settings() -> dict[str, str]:
    """The view of its files and environment of the pip that this Python has; the environment wins."""
    pip = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, timeout=60, check=False
    )
    if pip.returncode:
        sys.exit(f"images: {sys.executable} -m pip: expected its settings; saw: {pip.stderr.strip()}. Run 'make venv'.")
    found: dict[str, dict[str, str]] = {"global": {}, "install": {}, ":env:": {}}
    for line in pip.stdout.splitlines():
        name, _, value = line.partition("=")
        section, _, key = name.rpartition(".")
        if section in found and key in CARRIED:
            found[section][key] = str(ast.literal_eval(value))
    return found["global"] | found["install"] | found[":env:"]


def file_of(word: str) -> Path | None:
    """The file or directory that one word of a setting names; None when it names nothing on this machine."""
    parts = urlsplit(word)
    path = Path(unquote(parts.path)) if parts.scheme == "file" else Path(word)
    return path if path.is_absolute() and path.exists() else None


def inside(key: str, word: str, mounts: dict[Path, str]) -> str:
    """The word as it reads inside the build; adds to ``mounts``, source to target.

    A local index links to files that commonly lie beside it, so its parent is mounted.
    """
    path = file_of(word)
    if path is None:
        return word
    source = path.parent if key.endswith("index-url") and path.parent != Path("/") else path
    target = Path(mounts.setdefault(source, f"{INSIDE}/{len(mounts)}")) / path.relative_to(source)
    return target.as_uri() if word.startswith("file:") else str(target)


def carried(found: dict[str, str]) -> tuple[str, dict[Path, str]]:
    """A pip.conf with these settings, and the mounts that it needs."""
    mounts: dict[Path, str] = {}
    lines = (
        f"{key} = {' '.join(inside(key, word, mounts) for word in value.split())}\n"
        for key, value in sorted(found.items())
    )
    return "[global]\n" + "".join(lines), mounts


def main(output: str) -> None:
    body, mounts = carried(settings())
    Path(output).write_text(body)
    for source, target in mounts.items():
        print(f"{source}:{target}")


if __name__ == "__main__":
    main(sys.argv[1])
