"""The process itself: start, SIGTERM, impossible settings."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import httpx

from .conftest import wait_until

SERVER = """
import sys, time
from pathlib import Path
from airflow_provider_ragops.workloads.serving.server import serve
from airflow_provider_ragops.workloads.serving.app import create_app
from airflow_provider_ragops.workloads.serving.answer import Answer
from airflow_provider_ragops.workloads.serving.settings import Settings

class Slow:
    name, version, retriever = "M", "3", None
    def answer(self, body, content_type):
        print("predicting", flush=True)
        time.sleep(600 if body == b"hang" else 1.0)
        return Answer('{"predictions": [1]}', 200)

serve(create_app(Settings("M", "3", "http://unused", Path("unused")), load=lambda _: Slow()), int(sys.argv[1]), 4,
      float(sys.argv[2]))
"""


def free_port() -> int:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return int(bound.getsockname()[1])


def is_ready(address: str) -> bool:
    try:
        return httpx.get(f"{address}/health", timeout=5).status_code == 200
    except httpx.TransportError:
        return False


def test_a_request_in_flight_at_sigterm_is_answered() -> None:
    """R5: the pod is told to stop while it predicts: the answer still comes, then the process ends."""
    address = f"http://127.0.0.1:{(port := free_port())}"
    process = subprocess.Popen([sys.executable, "-c", SERVER, str(port), "0.3"], stdout=subprocess.PIPE, text=True)
    try:
        wait_until(lambda: is_ready(address))
        with ThreadPoolExecutor(1) as pool:
            answer = pool.submit(httpx.post, f"{address}/invocations", content=b"{}", timeout=20)
            assert process.stdout is not None
            assert process.stdout.readline() == "predicting\n"
            process.send_signal(signal.SIGTERM)
            assert answer.result().json() == {"predictions": [1]}
        process.wait(15)
        assert not is_ready(address)
    finally:
        process.kill()
        process.communicate()


def running(linger: str) -> tuple[str, subprocess.Popen[str]]:
    address = f"http://127.0.0.1:{(port := free_port())}"
    process = subprocess.Popen([sys.executable, "-c", SERVER, str(port), linger], stdout=subprocess.PIPE, text=True)
    wait_until(lambda: is_ready(address))
    return address, process


def test_after_sigterm_a_kept_connection_is_answered_and_told_to_close() -> None:
    """R5: a client that keeps its connection gets an answer after SIGTERM, and goes elsewhere by itself; so does a new
    one; then the process ends by itself, with 0."""
    address, process = running("1.5")
    try:
        with httpx.Client(base_url=address, timeout=20) as kept:
            assert "connection" not in kept.get("/ping").headers
            process.send_signal(signal.SIGTERM)
            wait_until(lambda: httpx.get(f"{address}/health").status_code == 503, 1)
            seen = kept.post("/invocations", content=b"{}")
            assert (seen.status_code, seen.headers["connection"]) == (200, "close")
        assert process.wait(15) == 0
    finally:
        process.kill()
        process.communicate()


def test_sigusr1_begins_the_drain_without_an_end() -> None:
    """For a preStop hook: not ready, still answering, with Connection: close; the process stays until SIGTERM."""
    address, process = running("0.1")
    try:
        process.send_signal(signal.SIGUSR1)
        wait_until(lambda: httpx.get(f"{address}/health").status_code == 503, 5)
        assert httpx.post(f"{address}/invocations", content=b"{}", timeout=20).headers["connection"] == "close"
        assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        assert process.wait(15) == 0
    finally:
        process.kill()
        process.communicate()


def test_a_prediction_that_never_ends_does_not_hold_the_process() -> None:
    """The drain is bounded: the hanging request is answered with 503, and its thread does not keep the process."""
    address, process = running("0.1")
    try:
        with ThreadPoolExecutor(1) as pool:
            hanging = pool.submit(httpx.post, f"{address}/invocations", content=b"hang", timeout=30)
            assert process.stdout is not None
            assert process.stdout.readline() == "predicting\n"
            started = time.monotonic()
            process.send_signal(signal.SIGTERM)
            process.wait(20)
            assert time.monotonic() - started < 15
            assert (hanging.result().status_code, hanging.result().json()["code"]) == (503, "not_ready")
    finally:
        process.kill()
        process.communicate()


def test_an_impossible_setting_ends_the_process_with_the_reason() -> None:
    """Exit code 1 and the variable's name, without a traceback."""
    environ = {key: value for key, value in os.environ.items() if key != "MODEL_NAME"}
    ended = subprocess.run(
        [sys.executable, "-m", "airflow_provider_ragops.workloads.serving"],
        env=environ, capture_output=True, text=True, timeout=60, check=False,
    )
    assert ended.returncode == 1
    assert ended.stderr.startswith("environment variable MODEL_NAME: expected a value; saw nothing.")
