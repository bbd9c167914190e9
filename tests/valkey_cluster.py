"""Three primaries of a Valkey cluster on this machine, each with a third of the slots."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import redis
from demo import services
from demo.background import Background

HOST = "127.0.0.1"
SLOTS = 16384
DEADLINE = 30.0


@dataclass(frozen=True)
class ValkeyCluster:
    """Its primaries' ports, in the order of their slots."""

    ports: tuple[int, ...]

    def nodes(self) -> list[redis.Redis]:
        return [redis.Redis(HOST, port, decode_responses=True, socket_timeout=5) for port in self.ports]

    def client(self) -> redis.RedisCluster:
        return redis.RedisCluster(HOST, self.ports[0], decode_responses=True, socket_timeout=5)


@pytest.fixture(scope="session")
def redis_cluster(background: Background, tmp_path_factory: pytest.TempPathFactory) -> ValkeyCluster:
    """A cluster of three primaries. Tests that need an empty one flush it."""
    return start(background, tmp_path_factory.mktemp("valkey-cluster"))


@pytest.fixture
def cluster_client(redis_cluster: ValkeyCluster) -> Iterator[redis.RedisCluster]:
    """A client of the emptied cluster."""
    with redis_cluster.client() as client:
        client.flushall(target_nodes=redis.RedisCluster.PRIMARIES)
        yield client


def start(background: Background, folder: Path, count: int = 3) -> ValkeyCluster:
    found = ValkeyCluster(tuple(services.free_port(HOST) for _ in range(count)))
    buses = [services.free_port(HOST) for _ in range(count)]
    for number, (port, bus) in enumerate(zip(found.ports, buses, strict=True)):
        service = services.redis(folder / str(number), HOST, port)
        options = ("--cluster-enabled", "yes", "--cluster-port", str(bus), "--cluster-node-timeout", "15000")
        background.start(replace(service, name=f"valkey-{number}", command=(*service.command, *options)))
    nodes = found.nodes()
    for number, node in enumerate(nodes):
        first, last = SLOTS * number // count, SLOTS * (number + 1) // count - 1
        node.execute_command("CLUSTER", "ADDSLOTSRANGE", first, last)
        nodes[0].execute_command("CLUSTER", "MEET", HOST, found.ports[number], buses[number])
    until = time.monotonic() + DEADLINE
    while not all(_is_whole(node, count) for node in nodes):
        assert time.monotonic() < until, f"no whole cluster in {DEADLINE:g} s; see logs/valkey-*.log of {folder}"
        time.sleep(0.1)
    for node in nodes:
        node.close()
    return found


def _is_whole(node: redis.Redis, count: int) -> bool:
    info = node.execute_command("CLUSTER INFO")
    return (info["cluster_state"], info["cluster_slots_ok"], info["cluster_size"]) == ("ok", str(SLOTS), str(count))
