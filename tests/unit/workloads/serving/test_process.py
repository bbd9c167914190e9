"""The process itself: start, SIGTERM, impossible settings."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
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
        time.sleep(1.5)
        return Answer('{"predictions": [1]}', 200)

serve(create_app(Settings("M", "3", "http://unused", Path("unused")), load=lambda _: Slow()), int(sys.argv[1]), 10,
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


def test_an_impossible_setting_ends_the_process_with_the_reason() -> None:
    """Exit code 1 and the variable's name, without a traceback."""
    environ = {key: value for key, value in os.environ.items() if key != "MODEL_NAME"}
    ended = subprocess.run(
        [sys.executable, "-m", "airflow_provider_ragops.workloads.serving"],
        env=environ, capture_output=True, text=True, timeout=60, check=False,
    )
    assert ended.returncode == 1
    assert ended.stderr.startswith("environment variable MODEL_NAME: expected a value; saw nothing.")
