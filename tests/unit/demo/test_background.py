"""Background services: real processes, each started, found again and ended."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from demo import proc
from demo.background import Background, Service
from demo.command import run
from demo.errors import DemoError
from demo.http import answers
from demo.services import free_port

# A server with a child in a session of its own grandchild's, as Airflow and MLflow have them.
SERVER = """
import http.server, subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
open(sys.argv[2], "w").write(str(child.pid))
print("serving")
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), http.server.SimpleHTTPRequestHandler).serve_forever()
"""


@pytest.fixture
def background(tmp_path: Path) -> Iterator[Background]:
    found = Background(tmp_path / "demo")
    yield found
    found.stop_all()


def web(tmp_path: Path, port: int, script: str = SERVER, deadline: float = 20, **env: str) -> Service:
    address = f"http://127.0.0.1:{port}"
    command = (sys.executable, "-c", script, str(port), str(tmp_path / "child"))
    return Service("web", command, address, lambda: answers(address), env, deadline)


def pid_of(background: Background) -> int:
    return int(json.loads((background.run / "web.json").read_text())["pid"])


def gone(pid: int) -> bool:
    deadline = time.monotonic() + 10
    while (seen := proc.stat(pid)) and seen.state != "Z":
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def test_a_second_start_finds_the_first(background: Background, tmp_path: Path) -> None:
    """A service that is up with the same settings is left alone."""
    service = web(tmp_path, free_port("127.0.0.1"))
    assert background.start(service) is True
    first = pid_of(background)
    assert background.start(service) is False
    assert pid_of(background) == first


def test_other_settings_start_it_again(background: Background, tmp_path: Path) -> None:
    """A changed environment, such as a new image, replaces the process."""
    port = free_port("127.0.0.1")
    background.start(web(tmp_path, port, IMAGE="one"))
    first = pid_of(background)
    background.start(web(tmp_path, port, IMAGE="two"))
    assert pid_of(background) != first
    assert gone(first)


def test_stop_ends_the_children_too(background: Background, tmp_path: Path) -> None:
    """Nothing of a service is left, and a second stop does nothing."""
    background.start(web(tmp_path, free_port("127.0.0.1")))
    child, leader = int((tmp_path / "child").read_text()), pid_of(background)
    assert background.stop_all() == ["web"]
    assert gone(child)
    assert gone(leader)
    assert background.stop("web") is False


def test_the_children_of_a_killed_leader_are_ended(background: Background, tmp_path: Path) -> None:
    """Its session is still ours after the leader was killed."""
    background.start(web(tmp_path, free_port("127.0.0.1")))
    child = int((tmp_path / "child").read_text())
    os.kill(pid_of(background), 9)
    background.stop("web")
    assert gone(child)


def test_a_process_that_got_the_pid_later_is_not_touched(background: Background) -> None:
    """A record whose start time is another's names nobody: stop leaves the process alone."""
    sleeper = Service("web", (sys.executable, "-c", "import time; time.sleep(600)"), "nowhere", lambda: True)
    other = Background(background.run.parent.parent / "other")
    other._launch(sleeper)
    record = json.loads((other.run / "web.json").read_text())
    background.run.mkdir(parents=True)
    (background.run / "web.json").write_text(json.dumps({**record, "started": record["started"] + 1}))
    assert background.stop("web") is False
    assert proc.alive(record["pid"], record["started"])
    other.stop_all()


def test_a_record_of_an_earlier_boot_is_ignored(background: Background, tmp_path: Path) -> None:
    """Pids and start times begin anew at each boot."""
    background.start(web(tmp_path, free_port("127.0.0.1")))
    file = background.run / "web.json"
    record = json.loads(file.read_text())
    file.write_text(json.dumps({**record, "boot": "another"}))
    assert background.stop("web") is False
    file.write_text(json.dumps(record))
    assert background.stop("web") is True


def test_a_service_that_ends_says_why(background: Background, tmp_path: Path) -> None:
    """The error has the address, the code, the log's path and its last lines."""
    port = free_port("127.0.0.1")
    with pytest.raises(DemoError) as raised:
        background.start(web(tmp_path, port, "import sys; sys.exit('no licence')"))
    for part in (f"127.0.0.1:{port}", "code 1", str(background.log("web")), "no licence"):
        assert part in str(raised.value)


def test_a_service_that_never_answers_is_ended(background: Background, tmp_path: Path) -> None:
    """After the deadline nothing of it runs."""
    script = "import os, sys, time; open(sys.argv[2], 'w').write(str(os.getpid())); time.sleep(600)"
    with pytest.raises(DemoError, match="no answer in 3 s"):
        background.start(web(tmp_path, free_port("127.0.0.1"), script, deadline=3))
    assert gone(int((tmp_path / "child").read_text()))


def test_an_address_that_is_taken_is_named(background: Background, tmp_path: Path) -> None:
    """Another's server on our port is not mistaken for ours, and not ended."""
    port = free_port("127.0.0.1")
    other = Background(tmp_path / "other")
    other.start(web(tmp_path, port))
    with pytest.raises(DemoError, match=f"{port} to be free"):
        background.start(web(tmp_path, port))
    assert answers(f"http://127.0.0.1:{port}")
    other.stop_all()


def test_a_command_that_fails_shows_its_log(tmp_path: Path) -> None:
    """The error has the name, the code and the last lines."""
    with pytest.raises(DemoError, match=r"build: ended with code 3[\s\S]*disk full"):
        run("build", [sys.executable, "-c", "print('disk full'); raise SystemExit(3)"], tmp_path / "log", deadline=30)


def test_a_command_is_ended_at_its_deadline(tmp_path: Path) -> None:
    """Its children are ended too."""
    script = (
        "import subprocess, sys, time; p = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)']);"
        "print(p.pid, flush=True); time.sleep(600)"
    )
    with pytest.raises(DemoError, match="not done after 2 s"):
        run("build", [sys.executable, "-c", script], tmp_path / "log", deadline=2)
    assert gone(int((tmp_path / "log").read_text().splitlines()[0]))
