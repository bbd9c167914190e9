"""The few calls of Airflow's REST API that the demo and the system tests need. Standard library only."""

from __future__ import annotations

import http.client
import json
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from demo.errors import DemoError

FINAL = ("success", "failed")
States = dict[str, str]


class NoAnswer(DemoError):
    """Airflow was not reached, or failed itself: the same call may go well a moment later."""


@dataclass(frozen=True)
class Run:
    """A run as it was last seen: its id, its state, and the state of each task."""

    dag: str
    run_id: str
    state: str
    tasks: States


class AirflowApi:
    """A session of one user. Every call has a timeout of 20 seconds."""

    def __init__(self, address: str, user: str, password: str) -> None:
        self.address = address
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        self._token = ""
        self._login = {"username": user, "password": password}

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """One call under ``/api/v2``; the parsed answer.

        :raises DemoError: naming the call and Airflow's answer; NoAnswer when there was none, or a 5xx.
        """
        if not self._token:
            self._token = self._send("POST", "/auth/token", self._login, {})["access_token"]
        return self._send(method, f"/api/v2{path}", body, {"Authorization": f"Bearer {self._token}"})

    def _send(self, method: str, path: str, body: Any, headers: dict[str, str]) -> Any:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json", "Accept": "application/json"} | headers
        request = urllib.request.Request(self.address + path, data, headers, method=method)  # noqa: S310 - http only
        try:
            with self._opener.open(request, timeout=20) as reply:
                return json.loads(reply.read() or b"null")
        except urllib.error.HTTPError as error:
            seen = error.read().decode(errors="replace")[:500]
            kind = NoAnswer if error.code >= 500 else DemoError
            raise kind(f"Airflow at {self.address}: {method} {path} answered {error.code}: {seen}") from error
        except (OSError, http.client.HTTPException) as error:
            raise NoAnswer(f"Airflow at {self.address}: {method} {path} got no answer: {error}") from error

    def unpause(self, dag: str, *, deadline: float = 120) -> None:
        """Wait until the DAG was parsed, and let it run.

        :raises DemoError: with the import errors of the DAG files, when it does not appear.
        """
        until = time.monotonic() + deadline
        while not any(one["dag_id"] == dag for one in self.call("GET", "/dags?limit=100")["dags"]):
            if time.monotonic() > until:
                errors = [one["stack_trace"] for one in self.call("GET", "/importErrors")["import_errors"]]
                raise DemoError(f"DAG {dag}: not there after {deadline:.0f} s. Import errors: {errors or 'none'}")
            time.sleep(1)
        self.call("PATCH", f"/dags/{dag}", {"is_paused": False})

    def trigger(self, dag: str, conf: dict[str, Any], *, note: str = "") -> str:
        """Start a run without a logical date, its params being ``conf``; returns the run's id."""
        body = {"logical_date": None, "conf": conf, "note": note or None}
        return str(self.call("POST", f"/dags/{dag}/dagRuns", body)["dag_run_id"])

    def running(self, dag: str) -> list[Run]:
        """The runs that are not over."""
        found = self.call("GET", f"/dags/{dag}/dagRuns?state=running&state=queued&limit=20")["dag_runs"]
        return [Run(dag, one["dag_run_id"], one["state"], {}) for one in found]

    def wait(self, dag: str, run_id: str, *, deadline: float, progress: Callable[[States], None]) -> Run:
        """Follow a run to its end; ``progress`` gets the tasks' states each time that they changed.

        A poll without an answer is no reason to give up: a busy machine answers late.

        :raises DemoError: when it has not ended after ``deadline`` seconds.
        """
        until = time.monotonic() + deadline
        seen: States = {}
        while True:
            state, tasks = self._poll(dag, run_id, seen)
            if tasks != seen:
                progress(seen := tasks)
            if state in FINAL:
                return Run(dag, run_id, state, tasks)
            if time.monotonic() > until:
                raise DemoError(f"run {run_id} of {dag}: not over after {deadline:.0f} s; it is {state}: {tasks}")
            time.sleep(1)

    def _poll(self, dag: str, run_id: str, seen: States) -> tuple[str, States]:
        """The state of a run and of its tasks; without an answer no final state, and the tasks as seen before."""
        try:
            return str(self.call("GET", _run(dag, run_id))["state"]), self.tasks(dag, run_id)
        except NoAnswer as error:
            return f"unknown ({error})", seen

    def tasks(self, dag: str, run_id: str) -> States:
        found = self.call("GET", f"{_run(dag, run_id)}/taskInstances?limit=100")["task_instances"]
        return {one["task_id"]: one["state"] or "none" for one in found}

    def xcom(self, run: Run, task: str, key: str = "return_value") -> Any:
        path = f"{_run(run.dag, run.run_id)}/taskInstances/{task}/xcomEntries/{key}"
        value = self.call("GET", path)["value"]
        return json.loads(value) if isinstance(value, str) and value[:1] in "{[" else value

    def log(self, run: Run, task: str, attempt: int = 1) -> list[dict[str, Any]]:
        """The task's structured log lines: ``event``, ``level``, and ``error_detail`` where one was raised."""
        path = f"{_run(run.dag, run.run_id)}/taskInstances/{task}/logs/{attempt}?full_content=true"
        content = self.call("GET", path)["content"]
        return [line if isinstance(line, dict) else {"event": str(line)} for line in content]

    def link(self, run: Run) -> str:
        return f"{self.address}/dags/{run.dag}/runs/{urllib.parse.quote(run.run_id)}"


def _run(dag: str, run_id: str) -> str:
    return f"/dags/{dag}/dagRuns/{urllib.parse.quote(run_id, safe='')}"
