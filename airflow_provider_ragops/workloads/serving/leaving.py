"""What a pod does before it is told to stop: the preStop hook of the serving container.

``python -m airflow_provider_ragops.workloads.serving.leaving WAIT [CLEAR]`` tells the server with SIGUSR1, so that
``/health`` answers 503 while ``/invocations`` goes on; waits WAIT seconds, so that nobody sends it requests any more;
then clears what this pod cached, for up to CLEAR seconds. SIGTERM comes after it.

It always ends with 0: a hook that fails is over at once, and its wait with it. Standard library only, and little of it,
because every pod that stops waits for its start.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from airflow_provider_ragops.contract import ENV_MODEL_CACHE

ENV_POD_NAME = "POD_NAME"
WAIT_SECONDS = 5.0
CLEAR_SECONDS = 3.0


def tell_server() -> None:
    """Process 1 is the server; one that does not handle the signal yet is not hurt by it, because it is process 1."""
    os.kill(1, signal.SIGUSR1)


def main(
    argv: Sequence[str], environ: Mapping[str, str], say: Callable[[str, str], None],
    *, tell: Callable[[], None] = tell_server, sleep: Callable[[float], None] = time.sleep,
) -> int:
    """Tell, wait, clear; always 0. Each step is taken even where the one before it failed.

    :param say: ``say(level, message)`` for the container's log.
    """
    wait, limit = (_seconds(argv, at, default, say) for at, default in ((0, WAIT_SECONDS), (1, CLEAR_SECONDS)))
    try:
        tell()
        say("info", f"leaving: /health answers 503 from now on; stopping in {wait:g} s")
    except Exception as error:  # the hook must not fail, whatever it finds
        say("error", f"leaving: the server was not told, so /health goes on to answer 200: {error}")
    sleep(wait)
    try:
        say(*_clear(environ, limit))
    except Exception as error:
        say("error", f"model cache {environ.get(ENV_MODEL_CACHE)!r}: not cleared: {type(error).__name__}: {error}")
    return 0


def _clear(environ: Mapping[str, str], limit: float) -> tuple[str, str]:
    """Level and message: what was done."""
    folder = environ.get(ENV_MODEL_CACHE, "")
    if found := fault(folder, environ.get(ENV_POD_NAME, "")):
        return "warning", f"model cache {folder!r}: not cleared: {found}"
    removed, left = clear(folder, limit)
    if left:
        return "warning", f"model cache {folder!r}: {removed} files and folders removed; left: {left}"
    return "info", f"model cache {folder!r}: cleared, {removed} files and folders removed"


def fault(folder: str, pod: str, mountinfo: Path = Path("/proc/self/mountinfo")) -> str:
    """Why this is not known to be the directory of this pod alone; empty where it is.

    The volume is shared by all pods of the node or of the tier. Only two things prove that a directory is this pod's:
    its own name, or that of the directory which the kubelet mounted here (``subPathExpr: $(POD_NAME)``).
    """
    if not folder or not pod:
        return f"{ENV_POD_NAME if folder else ENV_MODEL_CACHE} is not set"
    path = Path(folder)
    if not path.is_absolute() or path.is_symlink() or not path.is_dir():
        return "expected an absolute path to a directory; it is another path, a link, or no directory"
    if path.samefile("/"):
        return "it is the root of the file system"
    real = path.resolve()
    mounted = _mounted_at(real, mountinfo)
    if pod in (real.name, mounted.name):
        return ""
    seen = f"{mounted} is mounted there" if mounted.name else "it is no mount"
    return f"expected the directory of pod {pod}, or a mount of it; {seen}. Other pods may keep theirs in it"


def _mounted_at(path: Path, mountinfo: Path) -> Path:
    """Which directory of its file system is mounted at the path; without a name where none is.

    Not ``os.path.ismount``: that one does not see a directory mounted from the same file system.
    """
    lines = mountinfo.read_text("utf-8", "surrogateescape").split("\n")
    mounts = [line.split(" ")[3:5] for line in lines if line]
    found = [_plain(root) for root, at in mounts if _plain(at) == str(path)]
    return Path(found[-1] if found else "/")


def _plain(text: str) -> str:
    for code, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(code, character)
    return text


def clear(folder: str, limit: float, clock: Callable[[], float] = time.monotonic) -> tuple[int, str]:
    """Remove what is in the folder, but not the folder, and follow no link out of it.

    :returns: how many were removed, and why some are left; empty where none is.
    """
    ends, removed, left = clock() + limit, 0, ""
    for _, folders, files, at in os.fwalk(folder, topdown=False, follow_symlinks=False):
        for name in (*files, *folders):
            if clock() >= ends:
                return removed, f"the rest, after {limit:g} s"
            try:
                _remove(name, at)
                removed += 1
            except OSError as error:
                left = left or f"{name}: {error.strerror}"
    return removed, left


def _remove(name: str, at: int) -> None:
    try:
        os.unlink(name, dir_fd=at)  # a link, too, never what it points to
    except IsADirectoryError:
        os.rmdir(name, dir_fd=at)


def _seconds(argv: Sequence[str], at: int, default: float, say: Callable[[str, str], None]) -> float:
    text = argv[at] if len(argv) > at else str(default)
    if text.replace(".", "", 1).isdecimal():
        return float(text)
    say("error", f"leaving: expected seconds, saw {text!r}; taking {default:g}. Correct the preStop hook")
    return default


def to_container_log(level: str, message: str) -> None:
    """A line as the server's own, in the server's log: Kubernetes keeps what a hook prints only where it failed."""
    now = time.time()
    line = {
        "time": f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(now))}.{int(now % 1 * 1000):03d}+00:00",
        "level": level, "logger": __spec__.name, "message": message,
    }
    data = json.dumps(line).encode() + b"\n"
    try:
        # Not to wait for a reader that is stuck.
        log = os.open("/proc/1/fd/2", os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK)
        try:
            os.write(log, data)
        finally:
            os.close(log)
    except OSError:
        with suppress(OSError):  # nobody listens: the hook goes on
            os.write(2, data)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ, to_container_log))
