"""Registry and ledger in memory, with MLflow's semantics where they matter: alias writes are blind upserts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from airflow_provider_ragops.exceptions import RegistryError, VersionMissingError
from airflow_provider_ragops.promotion.ledger import LedgerEntry
from airflow_provider_ragops.promotion.registry import VersionInfo


class FakeRegistry:
    def __init__(self) -> None:
        self.tags: dict[str, dict[str, str]] = {}
        self.aliases: dict[str, str] = {}

    def add(self, version: str, **tags: str) -> None:
        self.tags[version] = tags

    def version(self, model: str, version: str) -> VersionInfo:
        if version not in self.tags:
            raise VersionMissingError(f"version {version}", expected="to exist", seen="nothing", action="Register it.")
        return VersionInfo(model, version, "run", dict(self.tags[version]))

    def alias(self, model: str, alias: str) -> str | None:
        return self.aliases.get(alias)

    def set_alias(self, model: str, alias: str, version: str) -> None:
        self.aliases[alias] = version

    def delete_alias(self, model: str, alias: str) -> None:
        self.aliases.pop(alias, None)

    def set_tags(self, model: str, version: str, tags: Mapping[str, str]) -> None:
        self.version(model, version)
        self.tags[version].update(tags)

    def find(self, model: str, tags: Mapping[str, str]) -> list[VersionInfo]:
        return [self.version(model, v) for v, found in self.tags.items() if tags.items() <= found.items()]

    def input_example(self, model: str, version: str) -> dict[str, Any]:
        return {"dataframe_records": [{"x": 1.0}]}

    def metrics(self, model: str, version: str) -> dict[str, float]:
        return {}


class FakeLedger:
    def __init__(self) -> None:
        self.entries: dict[str, LedgerEntry] = {}

    def open(self, entry: LedgerEntry) -> None:
        self.entries.setdefault(entry.release_id, entry)

    def close(self, release_id: str, outcome: str, reason: str, token: int | None = None) -> None:
        if release_id not in self.entries:
            raise RegistryError(release_id, expected="an entry", seen="none", action="Open it first.")
        entry = self.entries[release_id]
        if entry.outcome not in (None, outcome):
            raise RegistryError(release_id, expected="an open entry", seen=str(entry.outcome), action="Look.")
        if entry.outcome is None:
            self.entries[release_id] = replace(entry, outcome=outcome, outcome_reason=reason, closed_token=token)

    def open_entries(self, target: str) -> list[LedgerEntry]:
        return [entry for entry in self.entries.values() if entry.outcome is None]

    def history(self, target: str) -> list[LedgerEntry]:
        return list(self.entries.values())[::-1]

    def served_on(self, target: str, when: datetime) -> LedgerEntry | None:
        return None
