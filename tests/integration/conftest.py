"""Fixtures for all integration tests."""

from __future__ import annotations

from tests.valkey_cluster import cluster_client, redis_cluster

__all__ = ["cluster_client", "redis_cluster"]
