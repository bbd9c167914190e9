from __future__ import annotations

import pytest

from airflow_provider_ragops.cache.cleanup import clean_version, clean_versions
from airflow_provider_ragops.cache.inventory import unreferenced
from airflow_provider_ragops.cache.marker import Marker
from airflow_provider_ragops.exceptions import CleanupRefusedError


@pytest.mark.parametrize("version", ["", "*", "1*", "v1", "1:", "-1", "²"])
def test_only_a_number_is_a_version(version: str) -> None:
    """C1: what is no version number is refused before Redis is asked anything."""
    with pytest.raises(CleanupRefusedError, match="it is no version number"):
        clean_version(None, "p:", "M", version, {})


def test_everything_at_once_is_refused() -> None:
    """C5: with nothing to keep, the caller has not looked who needs what."""
    with pytest.raises(CleanupRefusedError, match="all versions of M under Redis prefix 'p:'"):
        clean_versions(None, "p:", "M", {})


def test_only_our_unreferenced_versions_may_go() -> None:
    """C5: another model's, nobody's and referenced versions are not chosen."""
    found = {"1": Marker("M", "r1"), "2": Marker("M", "r2"), "3": Marker("Other", "r3"), "4": Marker("", "")}
    assert unreferenced(found, "M", {"2": "champion alias"}) == {"1": Marker("M", "r1")}
