from __future__ import annotations

import pytest

from airflow_provider_ragops.cache.keyspace import key_space_fault, marker_fault, shown
from airflow_provider_ragops.cache.marker import Marker

GOOD = {"1": Marker("M", "r1"), "2": Marker("M", "r2")}


@pytest.mark.parametrize(
    ("found", "runs", "fault"),
    [
        (GOOD, {}, ""),
        (GOOD, {"1": "r1", "2": "r2"}, ""),
        ({}, {"2": "r2"}, ""),
        ({"2": Marker("M", "r2")}, {}, ""),
        (GOOD | {"1": Marker("O", "r")}, {}, "marker p:rag_meta:v1 names O, not M: two models share the prefix"),
        (GOOD | {"2": Marker("", "")}, {}, "marker p:rag_meta:v2 names no model, not M: two models share the prefix"),
        (GOOD | {"2": Marker("M", "")}, {}, "marker p:rag_meta:v2 names no training run"),
        (GOOD | {"2": Marker("M", "r1")}, {}, "markers of versions 1 and 2 name one run, r1"),
        (GOOD, {"2": "r9"}, "marker p:rag_meta:v2 names run r2, but version 2 is of run r9: its keys are stale"),
        (GOOD, {"1": ""}, "marker p:rag_meta:v1 names run r1, but there is no version 1: its keys are stale"),
    ],
)
def test_markers_of_two_versions(found: dict[str, Marker], runs: dict[str, str], fault: str) -> None:
    """M7: markers that are there name this model and each its own training run, the registry's where it is known."""
    assert marker_fault("p:", "M", found, runs) == fault


def test_one_version_twice_is_a_fault() -> None:
    """A version is not run beside itself: nothing is asked of Redis."""
    assert key_space_fault(None, "p:", "M", "3", "3") == "versions 3 and 3 are one: their keys can't be told apart"


def test_a_key_is_shown_without_its_customer() -> None:
    """The family and a digest find the key again; the customer's id is no matter for a log."""
    text = shown("p:", "p:rag_decompose:customer_id=jane.doe@example.com")
    assert text.startswith("p:rag_decompose… (digest ")
    assert "jane" not in text
    assert shown("p:", "p:rag_store") == "p:rag_store"
