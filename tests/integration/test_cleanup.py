"""Clean-up by version on a real server of the Redis protocol: what goes, what stays, what is refused."""

from __future__ import annotations

import pytest
import redis

from airflow_provider_ragops.cache.cleanup import CleanupReport, clean_stale, clean_version, clean_versions
from airflow_provider_ragops.cache.inventory import leftovers, stale, unmarked
from airflow_provider_ragops.contract import marker_key
from airflow_provider_ragops.exceptions import CleanupRefusedError
from tests.key_space import connect, fill, mark, names, write
from tests.server import Server

AWKWARD = ("*", "v1:*", "[a-z]", "?", "\\", "c:1", "{c}", "Zoë", "", " ", "customer_id=1:v1:")
CHAMPION = {"2": "champion alias"}


@pytest.fixture
def client(redis_server: Server) -> redis.Redis:
    """A database of this module's own, empty."""
    client = connect(redis_server.url, 11)
    client.flushdb()
    return client


def test_one_version_goes_and_its_neighbours_stay(client: redis.Redis) -> None:
    """C1: v1 takes neither v10, v11 nor v21 along, whatever glob characters the customers' ids hold."""
    doomed = fill(client, "shop:", "1", customers=AWKWARD)
    kept = {key for version in ("2", "10", "11", "21") for key in fill(client, "shop:", version, customers=AWKWARD)}
    assert clean_version(client, "shop:", "M", "1", {}) == CleanupReport({"1": len(doomed)})
    assert names(client) == kept


@pytest.mark.parametrize("prefix", ["t[3]*:", "a?c:", "*", "[ab]", "\\", "^-]"])
def test_a_prefix_is_data_not_a_pattern(client: redis.Redis, prefix: str) -> None:
    """C1: a prefix with glob characters matches itself, and itself only."""
    doomed = fill(client, prefix, "1")
    other = {key for name in ("t3x:", "abc:", "", "a", "b", "x*", "-") for key in fill(client, name, "1")}
    assert clean_version(client, prefix, "M", "1", {}).removed == {"1": len(doomed)}
    assert names(client) == other


def test_other_applications_keys_are_left_alone(client: redis.Redis) -> None:
    """C1: keys that are no text (Feast's), and a user's own under a similar name, survive."""
    client.hset(b"\x02\x00\xfe\xffuser_id", mapping={b"\xff": b"\x01"})
    client.set("rag_decompose_stats:v1:total", "5")
    client.set(b"rag_decompose:v2:customer_id=\xff:q", "x")
    client.set(b"rag_decompose:v1:customer_id=\xff:q", "x")
    mark(client, "", "1")
    assert clean_version(client, "", "M", "1", {}).removed == {"1": 2}
    assert names(client) == {"\x02\x00\udcfe\udcffuser_id", "rag_decompose_stats:v1:total",
                             "rag_decompose:v2:customer_id=\udcff:q"}


def test_versions_that_nothing_refers_to_go(client: redis.Redis) -> None:
    """Versions to keep stay whole, the others go with their marker, however many keys they have; again finds none."""
    doomed = {"1": len(fill(client, "p:", "1", customers=map(str, range(1500)))), "3": len(fill(client, "p:", "3"))}
    kept = fill(client, "p:", "2")
    assert leftovers(client, "p:", "M", CHAMPION) == doomed
    assert clean_versions(client, "p:", "M", CHAMPION) == CleanupReport(doomed)
    assert names(client) == kept
    assert clean_versions(client, "p:", "M", CHAMPION) == CleanupReport()
    assert clean_version(client, "p:", "M", "1", CHAMPION) == CleanupReport({"1": 0})
    assert leftovers(client, "p:", "M", CHAMPION) == {}


@pytest.mark.parametrize(
    "who",
    ["served by ml-serving/mlflow-serve", "pod mlflow-serve-7d9-x2", "champion alias", "challenger alias",
     "last good of ml-serving/mlflow-serve"],
)
def test_a_referenced_version_is_refused(client: redis.Redis, who: str) -> None:
    """C5: asked for a version that something refers to, clean-up names who, and touches nothing."""
    before = fill(client, "p:", "4") | fill(client, "p:", "5")
    with pytest.raises(CleanupRefusedError) as refused:
        clean_version(client, "p:", "M", "4", {"4": who, "5": "champion alias"})
    assert f"it is needed by {who}" in str(refused.value)
    assert "version 4 of M under Redis prefix 'p:'" in str(refused.value)
    assert names(client) == before


def test_last_good_stays_for_a_rollback(client: redis.Redis) -> None:
    """C12: after a release of v2 and the rollback to v1, v1's keys are there; they go when last good moves on."""
    first, second = fill(client, "p:", "1"), fill(client, "p:", "2")
    clean_versions(client, "p:", "M", {"2": "served by ml-serving/x", "1": "last good of ml-serving/x"})
    assert names(client) == first | second
    clean_versions(client, "p:", "M", {"1": "served by ml-serving/x, last good of ml-serving/x"})
    assert names(client) == first
    third = fill(client, "p:", "3")
    clean_versions(client, "p:", "M", {"3": "served by ml-serving/x, last good of ml-serving/x"})
    assert names(client) == third


def test_another_models_keys_are_not_ours(client: redis.Redis) -> None:
    """Keys whose marker names another model are left and reported; asked for, they are refused with its name."""
    before = fill(client, "p:", "1", model="Other") | fill(client, "p:", "2")
    report = clean_versions(client, "p:", "M", CHAMPION)
    assert report == CleanupReport({}, {"1": "its marker names Other, not M"})
    with pytest.raises(CleanupRefusedError, match="marker p:rag_meta:v1 names Other"):
        clean_version(client, "p:", "M", "1", {})
    assert names(client) == before


def test_a_marker_of_another_kind_is_nobodys(client: redis.Redis) -> None:
    """Something that is no hash under a marker's name is no permission to delete."""
    client.set(marker_key("p:", "1"), "M")
    write(client, ["p:rag_store:v1:x"])
    assert clean_versions(client, "p:", "M", CHAMPION).left == {"1": "its marker names no model, not M"}
    assert len(names(client)) == 2


def test_keys_without_a_marker_are_nobodys(client: redis.Redis) -> None:
    """Without a marker nothing goes: neither among all nor asked for; they are counted for the report."""
    fill(client, "p:", "2")
    write(client, ["p:rag_store:v1:x", "p:rag_decompose:v1:customer_id=c:q", "p:rag_decompose:customer_id=c"])
    assert clean_versions(client, "p:", "M", CHAMPION) == CleanupReport()
    report = clean_version(client, "p:", "M", "1", CHAMPION)
    assert report == CleanupReport({}, {"1": "no marker p:rag_meta:v1 says whose the keys are"})
    assert leftovers(client, "p:", "M", CHAMPION) == {}
    assert unmarked(client, "p:") == {"1": 2}


def test_a_recreated_models_old_keys_are_stale(client: redis.Redis) -> None:
    """M7: version 1 of a model that was deleted and made anew: the old v1's keys are told by their run, and go."""
    old, second = fill(client, "p:", "1", run="old"), fill(client, "p:", "2", run="r2")
    runs = {"1": "new", "2": "r2", "3": "r3"}
    assert stale(client, "p:", "M", runs) == {"1": "old"}
    assert stale(client, "p:", "M", {"2": "r2"}) == {}  # a version that was not asked about is not judged
    assert stale(client, "p:", "M", {"2": ""}) == {"2": "r2"}  # the registry has no such version
    assert clean_stale(client, "p:", "M", runs) == CleanupReport({"1": len(old)})
    assert names(client) == second
