"""A partition against its contract: every violation is found at once, and told with column, check and examples."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import fsspec
import pandas as pd
import pandera.pandas as pa
import pytest
from churn import cdnow

from airflow_provider_ragops.contract import Partition
from airflow_provider_ragops.exceptions import ConfigurationError, ContractViolationError
from airflow_provider_ragops.validation.check import check, load_schema
from airflow_provider_ragops.validation.reading import read_partition
from airflow_provider_ragops.validation.report import MAX_FAILURES, MAX_TEXT, CheckFailure, ContractReport

SCHEMA = "churn.contract:transactions"
FS = fsspec.filesystem("file")


def report(location: Path, partition: Partition) -> ContractReport:
    return check(read_partition(FS, str(location), partition), load_schema(SCHEMA), partition, name=SCHEMA)


def test_valid_partition(location: Path, partition: Partition) -> None:
    """Rows that keep the contract pass, an amount of zero among them."""
    found = report(location, partition)
    assert (found.passed, found.rows, found.failures) == (True, 6, ())
    found.raise_if_broken()


TOLD = {
    "dropped-column": "amount: column is present failed 1 time",
    "wrong-type": r"amount: dtype\('float64'\) failed 1 time, for example object",
    "negative-amount": r"amount: greater_than_or_equal_to\(0\) failed 3 times, for example -1.0, -1.0, -1.0",
    "future-timestamp": r"event_timestamp: not after the partition's end 2026-11-30T00:00:00\+00:00 \(future\) "
                        "failed 2 times, for example 2026-12-02T00:00:00",
}


@pytest.mark.parametrize("fault", sorted(cdnow.FAULTS))
def test_each_fault_is_named(location: Path, partition: Partition, fault: str) -> None:
    """Column, check, count and examples of each fault are in the error."""
    cdnow.break_partition(location, next(partition.days), fault)
    with pytest.raises(ContractViolationError, match=TOLD[fault]) as raised:
        report(location, partition).raise_if_broken()
    assert f"partition 2026-11-29: expected 6 rows that keep the contract {SCHEMA}" in str(raised.value)


def test_all_violations_at_once(location: Path, partition: Partition) -> None:
    """One run names every broken check, rows of another day and an unknown column among them."""
    frame = read_partition(FS, str(location), partition)
    frame.loc[0, "event_timestamp"] -= timedelta(days=1)
    frame.loc[1, "items"] = 0
    frame.loc[2, "line_id"] = frame.loc[3, "line_id"]
    frame["surprise"] = 1
    found = check(frame, load_schema(SCHEMA), partition)
    told = {(failure.column, failure.check.split(" 2026")[0], failure.count) for failure in found.failures}
    assert told == {
        ("event_timestamp", "not before the partition's start", 1), ("items", "greater_than_or_equal_to(1)", 1),
        ("line_id", "field_uniqueness", 2), ("surprise", "column is in the contract", 1),
    }


def test_naive_times_are_a_type_error(location: Path, partition: Partition) -> None:
    """F5: times without a zone break the contract; they are never taken for UTC."""
    frame = read_partition(FS, str(location), partition)
    frame["event_timestamp"] = frame["event_timestamp"].dt.tz_localize(None)
    (failure,) = check(frame, load_schema(SCHEMA), partition).failures
    assert (failure.column, failure.examples) == ("event_timestamp", ("datetime64[us]",))


def test_report_is_capped_and_json_safe(partition: Partition) -> None:
    """Sixty broken columns of huge values still make a small JSON document."""
    frame = pd.DataFrame({f"c{number}": ["x" * 10_000] * 100 for number in range(60)})
    schema = pa.DataFrameSchema({name: pa.Column(str, pa.Check.str_length(max_value=3)) for name in frame}, name="wide")
    found = check(frame, schema, partition)
    assert (len(found.failures), found.omitted) == (MAX_FAILURES, 60 - MAX_FAILURES)
    assert {len(failure.examples) for failure in found.failures} == {5}
    assert all(len(value) == MAX_TEXT for failure in found.failures for value in failure.examples)
    text = json.dumps(found.as_dict(), allow_nan=False)
    assert len(text) < 100_000
    assert json.loads(text)["passed"] is False
    assert found.table().endswith("and 10 more checks")
    with pytest.raises(ContractViolationError, match="and 10 more checks"):
        found.raise_if_broken()


def test_table_lines_up() -> None:
    """The log's table has one line per check under a header."""
    failures = (CheckFailure("amount", "ge(0)", 3, ("-1.0",)), CheckFailure("user_id", "int64", 1, ()))
    lines = ContractReport("s", "2026-11-29", 9, failures).table().splitlines()
    assert [line.split() for line in lines] == [
        ["column", "check", "count", "examples"], ["amount", "ge(0)", "3", "-1.0"], ["user_id", "int64", "1"],
    ]
    assert {line.index(word) for line, word in zip(lines, ("check", "ge", "int64"), strict=True)} == {9}


@pytest.mark.parametrize(("path", "told"), [
    ("churn.nosuch:transactions", "ModuleNotFoundError"),
    ("churn.contract:nosuch", "AttributeError"),
    ("churn.contract", "AttributeError|ValueError"),
    ("", "ValueError"),
    ("churn.cdnow:PART", "a str"),
])
def test_bad_schema_path(path: str, told: str) -> None:
    """A path that leads to no schema is a configuration error that repeats it."""
    with pytest.raises(ConfigurationError, match=told) as raised:
        load_schema(path)
    assert f"contract {path!r}" in str(raised.value)


def test_model_class_as_schema(partition: Partition, monkeypatch: pytest.MonkeyPatch) -> None:
    """A DataFrameModel serves as well as a DataFrameSchema."""

    class Lines(pa.DataFrameModel):
        amount: float = pa.Field(ge=0)

    monkeypatch.setattr(cdnow, "Lines", Lines, raising=False)
    (failure,) = check(pd.DataFrame({"amount": [1.0, -2.0]}), load_schema("churn.cdnow:Lines"), partition).failures
    assert (failure.column, failure.count, failure.examples) == ("amount", 1, ("-2.0",))


def test_switched_off_pandera(monkeypatch: pytest.MonkeyPatch) -> None:
    """With Pandera's checks switched off, validation refuses to run instead of passing everything."""
    monkeypatch.setenv("PANDERA_VALIDATION_ENABLED", "False")
    with pytest.raises(ConfigurationError, match=r"PANDERA_VALIDATION_ENABLED=False.*every check would pass unseen"):
        load_schema(SCHEMA)
