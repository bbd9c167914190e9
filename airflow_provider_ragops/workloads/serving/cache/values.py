"""What the cache keeps, whose it is, and how a look into it can end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:
    from numpy import float32
    from numpy.typing import NDArray

#: ``hit``: not computed for this request. ``miss``: computed and kept. ``mismatch``: what lay there did not fit the
#: loaded version; computed. ``bypass``: computed, and Redis could not be asked or did not keep it.
Outcome = Literal["hit", "miss", "mismatch", "bypass"]


@dataclass(frozen=True)
class Identity:
    """Whose keys and values these are. The version number alone is no identity: it may be used again."""

    model: str
    version: str
    run: str
    dimension: int


@dataclass(frozen=True)
class Decomposition:
    """Sub-queries and their vectors, one row each. Requests that wait for one builder share it: don't write to it."""

    sub_queries: tuple[str, ...]
    vectors: NDArray[float32]


class Hit(NamedTuple):
    """A passage that was found, and how well it fits."""

    passage: str
    score: float


#: Makes a hit of a passage's id and a score; what is encoded needs the attributes ``passage`` and ``score`` only.
MakeHit = Callable[[str, float], Any]


@dataclass
class Counts:
    """What happened so far, as plain numbers."""

    outcomes: Counter[str] = field(default_factory=Counter)
    #: Values that did not fit, by reason: schema, checksum, identity, subject, body, size, kind.
    mismatches: Counter[str] = field(default_factory=Counter)
    #: What could not be written, by reason; a write whose reply is lost counts here, too.
    unwritten: Counter[str] = field(default_factory=Counter)
    #: Why Redis was not used, by reason: no answer, marker missing, marker foreign, ...
    bypasses: Counter[str] = field(default_factory=Counter)
    written: int = 0
    built: int = 0
    #: Requests that waited for another one's builder: in this process, and in another pod.
    shared: int = 0
    waited: int = 0
