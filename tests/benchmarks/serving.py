"""Our serving runtime against MLflow's scoring server: the same model files, full validation on both sides.

``python -m tests.benchmarks.serving [--rounds 5] [--seconds 1.5] [--models linear,churn]``. Each server is a process of
its own with one worker, started as its own command starts it; the load comes from a third. Before any timing the
answers to good and bad requests are compared. A round asks in the order A B B A; the ratio of a round is that of the
two means. One JSON object a line; exit code 1 where a worst round misses ``--target``.

``linear`` costs next to nothing, so its row shows the servers; ``churn`` is the example's network. ``quiet`` gives both
servers no request log, ``log`` gives both the one that they have by default.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from statistics import mean, median
from typing import Any

import httpx

from tests.benchmarks.models import FEATURES, MODELS, frame

CONNECTIONS = (1, 32)
PEER, OURS = "mlflow", "ours"


@dataclass(frozen=True)
class Server:
    name: str
    port: int
    process: subprocess.Popen[bytes]

    def load(self, connections: int, seconds: float, body: bytes) -> dict[str, float]:
        before = self.cpu_seconds()
        command = [sys.executable, "-m", "tests.benchmarks.load", str(self.port), str(connections), str(seconds)]
        done = subprocess.run(command, input=body, capture_output=True, check=True, timeout=seconds + 60)
        found: dict[str, float] = json.loads(done.stdout)
        found["cpu_us"] = round(1e6 * (self.cpu_seconds() - before) / (found["rps"] * seconds), 1)
        return found

    def cpu_seconds(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def peak_rss_mb(self) -> float:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return round(int(status.partition("VmHWM:")[2].split()[0]) / 1024, 1)


def command_of(name: str, folder: Path, port: int, log: str) -> list[str]:
    if name == OURS:
        return [sys.executable, "-m", "tests.benchmarks.ours", str(folder), str(port), log]
    # What `mlflow models serve` runs (scoring_server.get_cmd), with one worker.
    quiet = ["--no-access-log"] if log == "quiet" else []
    return [sys.executable, "-m", "uvicorn", "--host", "127.0.0.1", "--port", str(port), "--workers", "1", *quiet,
            "mlflow.pyfunc.scoring_server.app:app"]


@contextmanager
def running(name: str, folder: Path, port: int, log: str) -> Iterator[Server]:
    env = os.environ | {
        "__pyfunc_model_path__": str(folder), "OMP_NUM_THREADS": "1", "MLFLOW_CONFIGURE_LOGGING": "false",
    }
    output = (folder.parent / f"{name}.log").open("wb")
    process = subprocess.Popen(command_of(name, folder, port, log), env=env, stdout=output, stderr=output)
    try:
        deadline = time.monotonic() + 90
        while not answers(port):
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{name} did not start: {(folder.parent / f'{name}.log').read_text()[-2000:]}")
            time.sleep(0.2)
        yield Server(name, port, process)
    finally:
        process.terminate()
        process.wait(30)
        output.close()


def answers(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/health", timeout=2).status_code == 200
    except httpx.TransportError:
        return False


def same_answers(servers: list[Server]) -> int:
    """Good and bad requests get the same verdict and the same predictions; returns how many were compared."""
    rows = frame(5)
    records = rows.to_dict("records")
    asked: list[Any] = [
        {"dataframe_split": {"columns": list(FEATURES), "data": rows.to_numpy().tolist()}},
        {"dataframe_records": records}, {"instances": records}, {"inputs": rows.to_dict("list")},
        {"dataframe_records": [{**records[0], "f0": None}]}, {"dataframe_records": [{**records[0], "more": 1}]},
        {"dataframe_records": [{**records[0], "f0": "much"}]}, {"dataframe_records": [{"f0": 1.0}]}, {"rows": []}, [],
    ]
    for body in asked:
        seen = [httpx.post(f"http://127.0.0.1:{server.port}/invocations", json=body, timeout=10) for server in servers]
        if len({each.status_code for each in seen}) != 1:
            raise AssertionError(f"{body}: {[(each.status_code, each.text[:200]) for each in seen]}")
        told = [json.loads(each.text, parse_constant=lambda _: None).get("predictions") for each in seen]
        if seen[0].status_code == 200 and told[0] != told[1]:
            raise AssertionError(f"{body}: {told}")
    return len(asked)


def averaged(side: list[dict[str, float]]) -> dict[str, float]:
    return {key: mean(each[key] for each in side) for key in side[0]}


@dataclass
class Comparison:
    """The rounds of one number of connections."""

    rounds: list[tuple[dict[str, float], dict[str, float]]] = field(default_factory=list)

    def add(self, ours: list[dict[str, float]], theirs: list[dict[str, float]]) -> None:
        self.rounds.append((averaged(ours), averaged(theirs)))

    def summary(self) -> dict[str, Any]:
        ratios = {
            "rps": [ours["rps"] / theirs["rps"] for ours, theirs in self.rounds],
            "p50": [theirs["p50_ms"] / ours["p50_ms"] for ours, theirs in self.rounds],
            "p99": [theirs["p99_ms"] / ours["p99_ms"] for ours, theirs in self.rounds],
            "cpu": [theirs["cpu_us"] / ours["cpu_us"] for ours, theirs in self.rounds],
        }
        told = {f"{key}_ratio": {"median": round(median(found), 2), "worst": round(min(found), 2)}
                for key, found in ratios.items()}
        sides = zip((OURS, PEER), zip(*self.rounds, strict=True), strict=True)
        return told | {name: {key: round(median(each[key] for each in side), 3) for key in side[0]}
                       for name, side in sides}


def compare(model: str, log: str, rounds: int, seconds: float, folder: Path) -> Iterator[dict[str, Any]]:
    body = json.dumps({"dataframe_split": {"columns": list(FEATURES), "data": frame(1).to_numpy().tolist()}}).encode()
    with running(OURS, folder, free_port(), log) as ours, running(PEER, folder, free_port(), log) as theirs:
        compared = same_answers([ours, theirs])
        for server in (ours, theirs):
            server.load(8, 1.0, body)  # both warm
        for connections in CONNECTIONS:
            comparison = Comparison()
            for _ in range(rounds):
                a, b, c, d = (server.load(connections, seconds, body) for server in (ours, theirs, theirs, ours))
                comparison.add([a, d], [b, c])
            yield {"benchmark": "serving", "model": model, "request_log": log, "connections": connections,
                   "rounds": rounds, "equal_requests": compared, **comparison.summary(),
                   "peak_rss_mb": {OURS: ours.peak_rss_mb(), PEER: theirs.peak_rss_mb()}}


def free_port() -> int:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.5)
    parser.add_argument("--models", default="linear,churn")
    parser.add_argument("--logs", default="log,quiet")
    parser.add_argument("--target", type=float, default=0.0, help="least ratio of rate and of p50 in every round")
    chosen = parser.parse_args()
    names = ("mlflow", "uvicorn", "fastapi", "starlette", "pandas", "numpy", "torch", "uvloop", "httptools")
    print(json.dumps({"versions": {name: version(name) for name in names}, "cpus": os.cpu_count()}), flush=True)
    missed = False
    for model in chosen.models.split(","):
        with tempfile.TemporaryDirectory() as made:
            folder = Path(made) / "model"
            MODELS[model](folder)
            for log in chosen.logs.split(","):
                for row in compare(model, log, chosen.rounds, chosen.seconds, folder):
                    print(json.dumps(row), flush=True)
                    missed |= min(row["rps_ratio"]["worst"], row["p50_ratio"]["worst"]) < chosen.target
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
