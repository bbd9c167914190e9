"""The two kinds of values, each with its form and its seal."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from airflow_provider_ragops.workloads.serving.cache import payload
from airflow_provider_ragops.workloads.serving.cache.values import Identity, MakeHit


@dataclass(frozen=True)
class Kind:
    """:meth:`sealed` and :meth:`opened` raise :class:`payload.Unfit` and nothing else."""

    seal: payload.Seal
    pack: Callable[[Any], bytes]
    unpack: Callable[[memoryview], Any]

    def sealed(self, subject: bytes, value: Any) -> bytes:
        return self.seal.wrap(subject, self.pack(value))

    def opened(self, subject: bytes, raw: bytes) -> Any:
        return self.unpack(self.seal.unwrap(subject, raw))


def decompositions(identity: Identity) -> Kind:
    return Kind(
        payload.Seal(identity, "decomposition"),
        partial(payload.pack_decomposition, dimension=identity.dimension),
        partial(payload.unpack_decomposition, dimension=identity.dimension),
    )


def search_results(identity: Identity, make_hit: MakeHit) -> Kind:
    return Kind(payload.Seal(identity, "hits"), payload.pack_hits, partial(payload.unpack_hits, make=make_hit))
