"""Any prefix, any customer, any version: exactly the keys of the version that was asked for go."""

from __future__ import annotations

from collections import Counter

import pytest
import redis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from airflow_provider_ragops.cache.cleanup import CleanupReport, clean_version, clean_versions
from airflow_provider_ragops.cache.inventory import leftovers
from tests.key_space import connect, fill, keys_of, names, write
from tests.server import Server

# What SCAN's patterns, our key names and hash tags are made of, so that texts often look like one another.
ALPHABET = "ab1v:*?[]^-\\{}=\n é"
PREFIXES = st.text(ALPHABET, max_size=6)
LOOKALIKES = st.sampled_from(["v1:*", "x:v1:y", "rag_decompose:v1:"])
CUSTOMERS = st.lists(st.text(ALPHABET, max_size=5) | LOOKALIKES, max_size=4)
NEIGHBOURS = st.sampled_from(["1", "10", "11", "12", "100"])
VERSIONS = st.sets(st.integers(1, 120).map(str) | NEIGHBOURS, min_size=1, max_size=5)


@pytest.fixture(scope="module")
def client(redis_server: Server) -> redis.Redis:
    """A database of this module's own."""
    return connect(redis_server.url, 13)


@given(
    prefixes=st.lists(PREFIXES, min_size=1, max_size=3, unique=True), customers=CUSTOMERS, versions=VERSIONS,
    data=st.data(),
)
@settings(
    max_examples=250, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_exactly_the_keys_of_the_asked_version_go(
    client: redis.Redis, evidence: Counter[str],
    prefixes: list[str], customers: list[str], versions: set[str], data: st.DataObject,
) -> None:
    """C1, C5: whatever prefix, customers and versions there are, one version's keys go, and the counts are right."""
    client.flushdb()
    written = {(prefix, version): fill(client, prefix, version, customers=customers)
               for prefix in prefixes for version in versions}
    unmarked = keys_of(prefixes[0], "777", customers)
    write(client, unmarked)
    prefix, version = prefixes[0], data.draw(st.sampled_from(sorted(versions)))
    keep = dict.fromkeys(versions - {version}, "in use")

    doomed = written.pop((prefix, version))
    assert leftovers(client, prefix, "M", keep) == {version: len(doomed)}
    report = clean_versions(client, prefix, "M", keep) if keep else clean_version(client, prefix, "M", version, keep)
    assert report == CleanupReport({version: len(doomed)})
    assert names(client) == unmarked.union(*written.values()) - doomed
    evidence["key spaces cleaned"] += 1
