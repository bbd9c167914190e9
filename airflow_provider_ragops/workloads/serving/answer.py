"""What goes back to the caller, before it is HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

NO_HEADERS: Mapping[str, str] = {}


@dataclass(frozen=True)
class Answer:
    """``code``: empty for a good answer, else the stable code of the error.

    ``cache``: layer and outcome of each look into the cache that the answer took.
    """

    body: str
    status: int = 200
    media_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=lambda: NO_HEADERS)
    code: str = ""
    cache: tuple[tuple[str, str], ...] = ()
