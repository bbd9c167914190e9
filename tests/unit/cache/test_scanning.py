from __future__ import annotations

import pytest

from airflow_provider_ragops.cache.scanning import literal, patterns, version_of
from airflow_provider_ragops.contract import decompose_key, marker_key, store_prefix


@pytest.mark.parametrize("prefix", ["", "shop:", "t[3]*:", "{rag}:", "rag_"])
def test_version_of_agrees_with_the_contract(prefix: str) -> None:
    """Whatever key the contract builds, its version is read back, under any prefix."""
    built = [
        decompose_key(prefix, "12", "c", "q"), decompose_key(prefix, "12", "{c}", "q"),
        f"{store_prefix(prefix, '12')}7", marker_key(prefix, "12"),
    ]
    assert [version_of(prefix, key) for key in built] == ["12"] * 4


@pytest.mark.parametrize(
    "key",
    [
        "rag_decompose:customer_id=7", "rag_decompose:v{version}:c", "rag_decompose:v1", "rag_store:vx:1",
        "rag_meta:v1:more", "rag_meta:v1\n", "rag_decompose:v\N{ARABIC-INDIC DIGIT ONE}:c", "xrag_decompose:v1:c",
        "other",
    ],
)
def test_a_key_without_a_version_has_none(key: str) -> None:
    """Legacy keys, unreplaced placeholders, digits that are not ASCII, other prefixes: no version is guessed."""
    assert version_of("", key) is None


def test_a_key_under_another_prefix_has_no_version() -> None:
    """A longer prefix is another one."""
    assert version_of("a:", decompose_key("a:b:", "1", "c", "q")) is None
    assert version_of("a:", decompose_key("", "1", "c", "q")) is None


def test_glob_characters_are_quoted() -> None:
    """C1: a prefix is data: each character that SCAN would interpret is quoted, all others are left alone."""
    assert literal(r"t[3]*?^-\x:") == r"t\[3\]\*\?\^\-\\x:"
    assert patterns("p*", "1") == (r"p\*rag_decompose:v1:*", r"p\*rag_store:v1:*")
