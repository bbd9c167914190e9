"""The names of a version's keys. Every one ends up under the patterns by which clean-up finds them."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider_ragops import contract

_DIGEST = 32  # hex digits: 128 bits, so that nobody can make two questions share a key


@dataclass(frozen=True)
class Keys:
    """Of one version. ``is_cluster``: the customer is the hash tag, so a customer's keys share a slot."""

    prefix: str
    version: str
    is_cluster: bool = False

    @property
    def marker(self) -> str:
        return contract.marker_key(self.prefix, self.version)

    def decomposition(self, customer_id: str, subject: bytes) -> str:
        customer = contract.customer_part(customer_id, is_tag=self.is_cluster)
        return contract.decompose_key(self.prefix, self.version, customer, subject.hex()[:_DIGEST])

    def hits(self, subject: bytes) -> str:
        return f"{contract.store_prefix(self.prefix, self.version)}{subject.hex()[:_DIGEST]}"


def lease_key(key: str) -> str:
    """Who builds a key's value right now; beside the key, in its slot, and gone with the version."""
    return f"{key}:lease"


def shown(key: str) -> str:
    """A key as it may stand in a log: what follows the version, a customer's id among it, is hashed."""
    head, separator, rest = key.partition(":customer_id=")
    return f"{head}:… (digest {contract.digest(rest)})" if separator else key
