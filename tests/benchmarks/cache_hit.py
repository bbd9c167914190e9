"""A cached question over HTTP, with a real Redis beside it: ``python -m tests.benchmarks.cache_hit``.

Reported, not compared: percentiles of whole requests whose values are all in the cache, and of the bare round trip of
one GET of redis-py, which is the floor of a look into the cache. The retriever is a small one: a hit does not embed.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import httpx
import redis
from demo import services
from demo.background import Background

from tests.benchmarks.serving import answers, free_port

BODY = json.dumps({"queries": ["refunds and fees"], "customer_id": 123}).encode()
SERVER = """
import sys
from pathlib import Path
from airflow_provider_ragops.workloads.serving.app import create_app
from airflow_provider_ragops.workloads.serving.cache.settings import CacheSettings
from airflow_provider_ragops.workloads.serving.caching import in_redis
from airflow_provider_ragops.workloads.serving.memory import settled
from airflow_provider_ragops.workloads.serving.server import serve
from airflow_provider_ragops.workloads.serving.settings import Settings
from tests.unit.workloads.serving.rag import a_model
chosen = CacheSettings.from_environ({"REDIS_URL": sys.argv[2], "REDIS_MAY_EVICT": "true"})
settings = Settings("rag-retriever", "3", "http://unused", Path("unused"), request_log=False)
app = create_app(settings, lambda _: a_model(), opened=in_redis(chosen), settle=settled)
serve(app, int(sys.argv[1]), 5, 1)
"""


def main() -> None:
    with tempfile.TemporaryDirectory() as made:
        background = Background(Path(made))
        server = services.redis(Path(made) / "redis", "127.0.0.1", services.free_port("127.0.0.1"))
        background.start(server)
        process = subprocess.Popen([sys.executable, "-c", SERVER, str(port := free_port()), server.address])
        try:
            while not answers(port):
                time.sleep(0.1)
            for connections in (1, 32):
                print(json.dumps(row(port, connections, server.address)), flush=True)
        finally:
            process.terminate()
            process.wait(30)
            background.stop_all()


def row(port: int, connections: int, address: str) -> dict[str, Any]:
    for _ in range(2):
        seen = httpx.post(f"http://127.0.0.1:{port}/invocations", content=BODY,
                          headers={"content-type": "application/json"}).json()
    if seen["metadata"]["cache"] != {"decomposition": ["hit"], "hits": ["hit"]}:
        raise AssertionError(f"expected hits only; saw {seen['metadata']}")
    command = [sys.executable, "-m", "tests.benchmarks.load", str(port), str(connections), "2"]
    done = subprocess.run(command, input=BODY, capture_output=True, check=True, timeout=60)
    return {"benchmark": "cache hit", "connections": connections, **json.loads(done.stdout),
            "redis_get_ms": round_trip(address)}


def round_trip(address: str, times: int = 2000) -> dict[str, float]:
    with redis.Redis.from_url(address) as client:
        seen = []
        for _ in range(times):
            started = time.perf_counter()
            client.get("absent")
            seen.append(time.perf_counter() - started)
    seen.sort()
    return {"p50": round(1000 * seen[times // 2], 4), "p99": round(1000 * seen[times * 99 // 100], 4)}


if __name__ == "__main__":
    main()
