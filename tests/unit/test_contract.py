"""The shared vocabulary: partitions, names, keys, the split."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_ragops import contract
from airflow_provider_ragops.contract import UTC, Partition, ServingTarget, dns_name, split_of
from airflow_provider_ragops.exceptions import ConfigurationError, PartitionError

NOW = datetime(2026, 11, 30, 2, tzinfo=UTC)
MIDNIGHT = datetime(2026, 11, 29, tzinfo=UTC)


def test_key_and_days_of_one_day() -> None:
    """One UTC day has its date as key."""
    partition = Partition.of_day(date(2026, 11, 29))
    assert partition.key == "2026-11-29"
    assert list(partition.days) == [date(2026, 11, 29)]
    assert partition.end - partition.start == timedelta(days=1)


@given(st.dates(date(1990, 1, 1), date(2100, 1, 1)), st.integers(1, 40))
def test_key_is_read_back(first: date, length: int) -> None:
    """A key names its partition: parsing it gives the same days."""
    start = datetime.combine(first, datetime.min.time(), tzinfo=UTC)
    partition = Partition(start, start + timedelta(days=length))
    assert Partition.parse(partition.key) == partition
    assert len(list(partition.days)) == length


def test_other_zones_are_the_same_instant() -> None:
    """A bound in another time zone is fine where it is midnight UTC, and is kept as UTC."""
    tokyo = timezone(timedelta(hours=9))
    start = datetime(2026, 11, 29, 9, tzinfo=tokyo)
    assert Partition(start, start + timedelta(days=1)).key == "2026-11-29"


@pytest.mark.parametrize(("start", "end", "told"), [
    (MIDNIGHT.replace(tzinfo=None), MIDNIGHT, "a naive time"),
    (MIDNIGHT + timedelta(hours=2), MIDNIGHT + timedelta(hours=26), "expected midnight UTC; saw 02:00:00"),
    (MIDNIGHT, MIDNIGHT, "zero or negative length"),
    (MIDNIGHT, MIDNIGHT - timedelta(days=1), "zero or negative length"),
])
def test_no_whole_days(start: datetime, end: datetime, told: str) -> None:
    """F5: naive, misaligned and empty intervals are refused, never rounded."""
    with pytest.raises(PartitionError, match=told):
        Partition(start, end)


@pytest.mark.parametrize("key", [
    "29.11.2026", "2026-13-01", "2026-11-29_x", "2026-11-29T00:00:00", "yesterday", "", "20261129", "2026-W48-7",
    "2026-11-29_", "_2026-11-29", "2026-11-29_20261130", " 2026-11-29", "2026-11-29\n", "9999-12-31",
])  # fmt: skip
def test_unreadable_key(key: str) -> None:
    """A key that is no date is refused with the expected form."""
    with pytest.raises(PartitionError, match="expected YYYY-MM-DD or YYYY-MM-DD_YYYY-MM-DD"):
        Partition.parse(key)


def test_a_range_of_one_day_is_that_day() -> None:
    """Both texts name one partition, and it has one key."""
    assert Partition.parse("2026-11-29_2026-11-29") == Partition.parse("2026-11-29")
    assert Partition.parse("2026-11-29_2026-11-29").key == "2026-11-29"


@pytest.mark.parametrize(("marker", "status", "tags", "completed"), [
    ("a1", "FINISHED", {contract.TAG_COMPLETED: "a1"}, True),
    ("a1", "FINISHED", {contract.TAG_COMPLETED: "a2"}, False),
    ("a1", "FINISHED", {}, False),
    ("a1", "FAILED", {contract.TAG_COMPLETED: "a1"}, False),
    ("a1", "RUNNING", {contract.TAG_COMPLETED: "a1"}, False),
    (None, "FINISHED", {}, False),
    ("", "FINISHED", {contract.TAG_COMPLETED: ""}, False),
])  # fmt: skip
def test_proof_of_a_finished_attempt(marker: str | None, status: str, tags: dict[str, str], completed: bool) -> None:
    """K1, K7: the run is FINISHED and carries the version's own marker; two missing markers do not match."""
    assert contract.is_completed(marker, status, tags) is completed


def test_resolution_order() -> None:
    """The param wins over the partition key, which wins over the data interval."""
    interval = (MIDNIGHT - timedelta(days=3), MIDNIGHT - timedelta(days=2))
    every = {"param": "2026-11-20", "partition_key": "2026-11-21", "interval": interval, "now": NOW}
    assert Partition.resolve(**every).key == "2026-11-20"
    assert Partition.resolve(**{**every, "param": None}).key == "2026-11-21"
    assert Partition.resolve(**{**every, "param": None, "partition_key": None}).key == "2026-11-26"


def test_nothing_given() -> None:
    """Without param, key and interval the error says where to fill it in."""
    with pytest.raises(PartitionError, match=r"no param, no partition key and no data interval.*trigger form"):
        Partition.resolve(param=None, partition_key=None, interval=None, now=NOW)


def test_future_partition() -> None:
    """A day that is not over is refused; the day that has just ended is not."""
    with pytest.raises(PartitionError, match=r"it ends 2026-12-01.*Wait until the day is over"):
        Partition.resolve(param="2026-11-30", partition_key=None, interval=None, now=NOW)
    found = Partition.resolve(param="2026-11-29", partition_key=None, interval=None, now=MIDNIGHT + timedelta(days=1))
    assert found.key == "2026-11-29"


@given(st.text(max_size=200))
def test_dns_name_is_always_a_label(text: str) -> None:
    """Whatever the text, the name is a DNS label; a label stays as it is."""
    name = dns_name(text)
    assert contract._DNS_LABEL.fullmatch(name)
    assert dns_name(name) == name


def test_dns_names_do_not_collide() -> None:
    """Texts that have one slug still get two names."""
    assert dns_name("My Model") != dns_name("my_model")


@pytest.mark.parametrize("field", ["namespace", "deployment", "container"])
def test_target_with_bad_name(field: str) -> None:
    """A name that Kubernetes would refuse is refused at construction, with the offending value."""
    values = {"namespace": "ml-serving", "model": "CustomerChurnPredictor", field: "Not_DNS"}
    with pytest.raises(ConfigurationError, match=f"a DNS label as {field}; saw 'Not_DNS'"):
        ServingTarget(**values)


def test_target_names() -> None:
    """All names of a target follow from it; a target without a model is refused."""
    target = ServingTarget(namespace="ml-serving", model="CustomerChurnPredictor")
    assert target.lock_name == "mlflow-serve-release-lock"
    assert target.slug == "ml-serving/mlflow-serve"
    assert ServingTarget(**target.as_dict()) == target
    with pytest.raises(ConfigurationError, match="an empty name"):
        ServingTarget(namespace="ml-serving", model="")


def test_version_1_does_not_match_10() -> None:
    """Key prefixes of version 1 match no key of version 10, in either key space."""
    keys = [contract.decompose_key("", "10", "c1", "ab"), contract.store_prefix("", "10") + "doc", "rag_meta:v10"]
    for pattern in contract.version_patterns("", "1"):
        assert not any(key.startswith(pattern) for key in keys)
    assert contract.decompose_key("", "1", "c", "ab").startswith(contract.version_patterns("", "1")[0])


def test_prefix_separates_targets() -> None:
    """Keys of a target with a prefix are no keys of the target without one."""
    assert not contract.decompose_key("staging:", "1", "c", "ab").startswith(contract.version_patterns("", "1"))
    assert contract.marker_key("staging:", "1") == "staging:rag_meta:v1"


def test_split_is_stable_and_salted() -> None:
    """An entity keeps its side for ever; another model cuts differently; about a fifth is held out."""
    sides = [split_of("CustomerChurnPredictor", str(number)) for number in range(20_000)]
    assert sides[:12] == [split_of("CustomerChurnPredictor", str(number)) for number in range(12)]
    assert 0.18 < sides.count("held_out") / len(sides) < 0.22
    assert sides != [split_of("rag-retriever", str(number)) for number in range(20_000)]
    assert split_of("m", "1", held_out_share=0.0) == "train"
    assert contract.split_id("m") != contract.split_id("m", 0.3)


def test_digest_keeps_parts_apart() -> None:
    """Parts are digested with their borders."""
    assert contract.digest("ab", "c") != contract.digest("a", "bc")
    assert len(contract.digest("ab")) == 16


@pytest.mark.parametrize("alias", ["latest", "Latest", "v3", "V12", ""])
@pytest.mark.parametrize("field", ["champion", "challenger"])
def test_reserved_aliases_are_refused(field: str, alias: str) -> None:
    """M11: MLflow answers for 'latest' with whatever is newest: refused where the target is written down."""
    with pytest.raises(ConfigurationError, match=f"ml-serving/mlflow-serve: expected an alias.*saw '{alias}'"):
        ServingTarget("ml-serving", "M", **{field: alias})
    assert ServingTarget("ml-serving", "M", champion="vnext", challenger="latest-good").champion == "vnext"


def test_champion_and_challenger_are_two_aliases() -> None:
    """What waits for a release must not be what serves."""
    with pytest.raises(ConfigurationError, match="expected two different aliases as champion and challenger"):
        ServingTarget("ml-serving", "M", champion="prod", challenger="prod")
