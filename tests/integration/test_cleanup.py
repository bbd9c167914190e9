"""Clean-up of versions on a real server of the Redis protocol."""

from __future__ import annotations

import redis

from airflow_provider_ragops.cache.cleanup import clean_versions
from airflow_provider_ragops.contract import decompose_key, marker_key, store_prefix


def connect(url: str) -> redis.Redis:
    return redis.Redis.from_url(url, decode_responses=True, socket_timeout=5)


def fill(client: redis.Redis, prefix: str, version: str, model: str, keys: int = 3) -> None:
    client.hset(marker_key(prefix, version), mapping={"model": model, "dimension": "384"})
    for number in range(keys):
        client.set(decompose_key(prefix, version, f"c{number}", "q"), "x")
        client.set(f"{store_prefix(prefix, version)}{number}", "x")


def test_only_unreferenced_versions_go(redis_server) -> None:
    """Versions to keep stay whole, the others go with their marker; v1 does not take v10 along."""
    client = connect(redis_server.url)
    for version in ("1", "2", "10"):
        fill(client, "t1:", version, "M")
    assert clean_versions(client, "t1:", "M", {"2", "10"}) == {"1": 7}
    left = {key.split(":v")[1].split(":")[0] for key in client.scan_iter(match="t1:*")}
    assert left == {"2", "10"}
    assert len(list(client.scan_iter(match="t1:*"))) == 14


def test_other_models_and_unmarked_keys_are_left_alone(redis_server) -> None:
    """Keys whose marker names another model, or that have none, are nobody's to delete."""
    client = connect(redis_server.url)
    fill(client, "t2:", "1", "Other")
    client.set(decompose_key("t2:", "3", "c", "q"), "x")
    assert clean_versions(client, "t2:", "M", set()) == {}
    assert len(list(client.scan_iter(match="t2:*"))) == 8


def test_prefix_is_data_not_a_pattern(redis_server) -> None:
    """A prefix with glob characters matches itself only."""
    client = connect(redis_server.url)
    fill(client, "t[3]*:", "1", "M")
    fill(client, "t3x:", "1", "M")
    assert clean_versions(client, "t[3]*:", "M", set()) == {"1": 7}
    assert len(list(client.scan_iter(match="t3x:*"))) == 7


def test_repeat_finds_nothing(redis_server) -> None:
    """A second clean-up has nothing to do; more keys than one batch go in one call."""
    client = connect(redis_server.url)
    fill(client, "t4:", "1", "M", keys=700)
    assert clean_versions(client, "t4:", "M", {"2"}) == {"1": 1401}
    assert clean_versions(client, "t4:", "M", {"2"}) == {}
