"""The names of keys: one per customer and question, short, plain, of one version, and in a log without a customer."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st
from redis.crc import key_slot

from airflow_provider_ragops.cache.scanning import version_of
from airflow_provider_ragops.contract import customer_part, text_digest
from airflow_provider_ragops.workloads.serving.cache.keys import Keys, lease_key, shown

TEXT = st.text(st.characters(), max_size=80)


@given(customer=TEXT, question=TEXT, is_cluster=st.booleans())
def test_any_customer_has_a_plain_key(*, customer: str, question: str, is_cluster: bool) -> None:
    """C1, C10: whatever the id holds, its key is plain and of one version; on a cluster the customer is its tag."""
    key = Keys("p:", "12", is_cluster).decomposition(customer, text_digest(question))
    shape = r"p:rag_decompose:v12:customer_id=\{?[0-9A-Za-z_.@~-]{1,64}\}?:[0-9a-f]{32}"
    assert re.fullmatch(shape, key)
    assert version_of("p:", key) == version_of("p:", lease_key(key)) == "12"
    assert key_slot(key.encode()) == key_slot(lease_key(key).encode()) or not is_cluster
    assert (key.count("{"), key.count("}")) == ((1, 1) if is_cluster else (0, 0))


@given(TEXT, TEXT)
def test_two_customers_never_share_a_key(one: str, other: str) -> None:
    """C7: ids differ, keys differ; also where one id is how another one is written."""
    for first in (one, customer_part(one), f"~{one}"):
        if first != other:
            assert customer_part(first) != customer_part(other)
    assert text_digest(one, other) != text_digest(one + other)
    assert (text_digest(one) == text_digest(other)) == (one == other)


def test_a_common_id_stays_readable() -> None:
    """An operator finds a customer's keys: a short plain id stands in them as it is, another one by its digest."""
    assert [customer_part(each) for each in ("42", "anna@example.org", "a_B.c-9", "x" * 64)] == \
        ["42", "anna@example.org", "a_B.c-9", "x" * 64]
    assert customer_part("Zoë") == f"~{text_digest('Zoë').hex()[:32]}"
    assert customer_part("42", is_tag=True) == "{42}"


def test_a_log_shows_no_customer() -> None:
    """Customer ids are hashed in logs; search results' keys hold none."""
    keys = Keys("p:", "1")
    assert re.fullmatch(r"p:rag_decompose:v1:… \(digest [0-9a-f]{16}\)", shown(keys.decomposition("anna", b"q")))
    assert shown(keys.hits(b"\x01\x02")) == "p:rag_store:v1:0102"
