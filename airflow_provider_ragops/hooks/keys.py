"""The Redis keys of one serving target's model versions, through an Airflow connection."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from airflow_provider_ragops.cache.cleanup import Conditions, clean_stale, clean_versions
from airflow_provider_ragops.cache.inventory import counts, leftovers
from airflow_provider_ragops.cache.keyspace import key_space_fault
from airflow_provider_ragops.contract import ServingTarget
from airflow_provider_ragops.hooks.redis import redis_client


@dataclass(frozen=True)
class TargetKeys:
    """What a release asks of Redis (:class:`~airflow_provider_ragops.release.session.Keys`).

    :param guard: called between batches; raises when the task was told to stop.
    """

    conn_id: str
    target: ServingTarget
    guard: Callable[[], None]

    def clean(self, keep: Mapping[str, str]) -> Mapping[str, str]:
        with redis_client(self.conn_id) as client:
            return clean_versions(client, *self._whose, keep, self._conditions).left

    def clean_stale(self, runs: Mapping[str, str]) -> None:
        with redis_client(self.conn_id) as client:
            clean_stale(client, *self._whose, runs, self._conditions)

    def leftovers(self, keep: Mapping[str, str]) -> Mapping[str, int]:
        with redis_client(self.conn_id) as client:
            return leftovers(client, *self._whose, keep)

    def fault(self, runs: Mapping[str, str]) -> str:
        if len(runs) < 2:
            return ""  # one of them was deleted from the registry: nothing to compare with
        old, new = runs
        with redis_client(self.conn_id) as client:
            return key_space_fault(client, *self._whose, old, new, runs=runs)

    def counts(self) -> Mapping[str, int]:
        with redis_client(self.conn_id) as client:
            return counts(client, self.target.redis_prefix)

    @property
    def _whose(self) -> tuple[str, str]:
        return self.target.redis_prefix, self.target.model

    @property
    def _conditions(self) -> Conditions:
        return Conditions(guard=self.guard)
