"""How the demo takes answers: a namespace that is not ours, an Airflow that is busy; real HTTP on loopback."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from demo import world
from demo.airflow_api import AirflowApi
from demo.chart import OURS, ServingTier
from demo.cluster import Cluster
from demo.errors import DemoError

Answer = tuple[int, Any]


@contextmanager
def server(answer: Callable[[str, str], Answer | None]) -> Iterator[str]:
    """Its address; ``None`` as the answer closes the connection without one."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def handle_one_request(self) -> None:
            self.raw_requestline = self.rfile.readline()
            if not self.raw_requestline or not self.parse_request():
                self.close_connection = True
                return
            self.close_connection = True
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            if found := answer(self.command, self.path):
                body = json.dumps(found[1]).encode()
                self.send_response(found[0])
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            return

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as found:
        thread = threading.Thread(target=found.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield f"http://127.0.0.1:{found.server_port}"
        finally:
            found.shutdown()
            thread.join(5)


def kubeconfig(folder: Path, address: str) -> Path:
    entries = {"clusters": [{"name": "c", "cluster": {"server": address}}], "users": [{"name": "u", "user": {}}],
               "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}], "current-context": "x"}
    (folder / "config").write_text(json.dumps({"apiVersion": "v1", "kind": "Config", **entries}))
    return folder / "config"


def namespaces(labels: dict[str, dict[str, str]], seen: list[str]) -> Callable[[str, str], Answer]:
    def answer(method: str, path: str) -> Answer:
        seen.append(method)
        name = path.rpartition("/")[2]
        if name in labels:
            return 200, {"kind": "Namespace", "metadata": {"name": name, "uid": "u-1", "labels": labels[name]}}
        return 404, {"kind": "Status", "reason": "NotFound"}

    return answer


@pytest.mark.parametrize("theirs", ["ml-serving", "ml-workloads"])
def test_a_teams_own_namespace_is_left_alone(theirs: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither removal nor a new start touches it, or the state on disk; the error says how to choose another."""
    monkeypatch.setattr(world, "STATE", tmp_path / "state")
    monkeypatch.setattr(world, "MARK", tmp_path / "state" / "cluster.json")
    (tmp_path / "state").mkdir()
    seen: list[str] = []
    labels = {"kube-system": {}, "ml-serving": OURS, "ml-workloads": OURS, theirs: {"team": "a"}}
    with server(namespaces(labels, seen)) as address:
        cluster = Cluster("given", kubeconfig(tmp_path, address), "127.0.0.1")
        for act in (ServingTier(cluster).remove, lambda: world.enter(cluster)):
            with pytest.raises(DemoError, match=rf"namespace {theirs} .*without that label.*RAGOPS_SERVING_NAMESPACE"):
                act()
    assert set(seen) == {"GET"}
    assert (tmp_path / "state").exists()


def test_namespaces_that_are_ours_or_not_there_are_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The names come from the environment, so that a cluster whose usual names are taken can be used."""
    monkeypatch.setenv("RAGOPS_SERVING_NAMESPACE", "mine")
    monkeypatch.setenv("RAGOPS_TRAINING_NAMESPACE", "absent")
    seen: list[str] = []
    with server(namespaces({"mine": OURS, "ml-serving": {}}, seen)) as address:
        ServingTier.of(Cluster("given", kubeconfig(tmp_path, address), "127.0.0.1")).check()
    assert seen == ["GET", "GET"]


def airflow(troubles: list[Answer | None]) -> Callable[[str, str], Answer | None]:
    """An Airflow whose run has succeeded, but which meets the first questions about it with troubles."""

    def answer(_method: str, path: str) -> Answer | None:
        if path == "/auth/token":
            return 201, {"access_token": "t"}
        if troubles:
            return troubles.pop(0)
        if "taskInstances" in path:
            return 200, {"task_instances": [{"task_id": "train", "state": "success"}]}
        return 200, {"state": "success"}

    return answer


def test_a_failed_poll_does_not_end_the_wait() -> None:
    """A 503 and a broken connection are passed over; the run's end is seen afterwards."""
    told: list[dict[str, str]] = []
    with server(airflow([(503, {}), None])) as address:
        run = AirflowApi(address, "admin", "p").wait("d", "r", deadline=20, progress=told.append)
    assert (run.state, told) == ("success", [{"train": "success"}])


@pytest.mark.parametrize(
    ("trouble", "deadline", "told"), [(503, 0.0, r"not over after 0 s; it is unknown .*503"), (404, 20.0, "404")]
)
def test_the_wait_ends_at_the_deadline_and_at_a_refusal(trouble: int, deadline: float, told: str) -> None:
    """No answer until the deadline is told with what was seen; a run that does not exist is told at once."""
    troubles: list[Answer | None] = [(trouble, {}), (trouble, {})]
    with server(airflow(troubles)) as address, pytest.raises(DemoError, match=told):
        AirflowApi(address, "admin", "p").wait("d", "r", deadline=deadline, progress=lambda _: None)
    assert len(troubles) == 1
