"""Carry this machine's pip settings into an image build: ``python3 pip_settings.py OUTPUT``.

Writes a pip.conf to OUTPUT and prints the local files and directories that it names, one a line: the build mounts them.
The file is mounted and never copied: no address or path of this machine ends up in an image.
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


def settings() -> dict[str, str]:
    """pip's own view of its files and environment; the environment wins."""
    pip = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, timeout=60, check=False
    )
    if pip.returncode:
        print(f"images: no pip settings are carried into the build; pip said: {pip.stderr.strip()}", file=sys.stderr)
    found: dict[str, dict[str, str]] = {"global": {}, "install": {}, ":env:": {}}
    for line in pip.stdout.splitlines():
        name, _, value = line.partition("=")
        section, _, key = name.rpartition(".")
        if section in found and key in CARRIED:
            found[section][key] = str(ast.literal_eval(value))
    return found["global"] | found["install"] | found[":env:"]


def local_path(key: str, word: str) -> Path | None:
    """The file or directory to mount for one word of a setting; None when it names nothing on this machine.

    A local index links to files that commonly lie beside it, so its parent is mounted.
    """
    parts = urlsplit(word)
    path = Path(unquote(parts.path)) if parts.scheme == "file" else Path(word)
    if not (path.is_absolute() and path.exists()):
        return None
    beside = key.endswith("index-url") and path.parent != Path("/")
    return path.parent if beside else path


def main(output: str) -> None:
    found = settings()
    body = "".join(f"{key} = {' '.join(value.split())}\n" for key, value in sorted(found.items()))
    Path(output).write_text(f"[global]\n{body}")
    paths = {local_path(key, word) for key, value in found.items() for word in value.split()}
    print(*sorted(str(path) for path in paths if path), sep="\n")


if __name__ == "__main__":
    main(sys.argv[1])
