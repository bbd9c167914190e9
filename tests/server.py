"""What fixtures hand out for a running service."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Server:
    """``uri`` and ``url`` are one and the same address."""

    uri: str

    @property
    def url(self) -> str:
        return self.uri
