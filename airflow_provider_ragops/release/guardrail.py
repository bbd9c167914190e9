"""A serving target's guardrails: traces of another version in logs, readiness, latency, growth of keys. Pure.

A release reads the same traces (``verify``); between releases ``ModelGuardrailOperator`` looks at all of them. The
chart's alerts tell Prometheus of mismatches and latency; keys are counted only here: it takes a scan of Redis.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

# A latency above twice the baseline while the version changes.
LATENCY_FACTOR = 2.0
# For so many seconds a version counts as new; then it is what the next one is compared with.
NEW_SECONDS = 3600.0

COLLISION, READY, LATENCY, KEYS = "collision", "ready", "latency", "keys"

#: What pods write when they meet a value, a vector or a tokenizer of another version: the stable code, the error's
#: class, or the words that older pods used. A JSON line writes the end of a line as ``\n``.
_TRACES = re.compile(
    r"(?:\b|\\n)(cache_key_collision|CacheKeyCollisionError|embedding[ _]dimension[ _]mismatch|EmbeddingDimensionError"
    r"|tokenizer[ _](?:mismatch|vocab differs)|TokenizerError)\b"
)
_SAMPLE = re.compile(r"mlflow_inference_latency_seconds_(sum|count)\{([^}]*)\} (\S+)")
_VERSION = re.compile(r'model_version="([^"]+)"')


def traces(log: str) -> list[str]:
    """The trace in each line that has one; never the line, which may hold what a caller wrote."""
    return [found[1] for line in log.splitlines() if (found := _TRACES.search(line))]


@dataclass(frozen=True)
class Latency:
    """Of one version: answers, and the seconds of all of them together, since its pods began."""

    answers: float = 0.0
    seconds: float = 0.0

    @property
    def mean(self) -> float:
        return self.seconds / self.answers

    def __add__(self, other: Latency) -> Latency:
        return Latency(self.answers + other.answers, self.seconds + other.seconds)


def latencies(metrics: str) -> dict[str, Latency]:
    """By version, out of a pod's ``/metrics``."""
    found: dict[str, Latency] = {}
    for kind, labels, value in _SAMPLE.findall(metrics):
        for version in _VERSION.findall(labels):
            more = Latency(seconds=float(value)) if kind == "sum" else Latency(answers=float(value))
            found[version] = found.get(version, Latency()) + more
    return found


@dataclass(frozen=True)
class Limits:
    """:param expected_keys: of one version in Redis; None judges none.

    :param fewest: answers below which a mean says nothing.
    """

    latency_factor: float = LATENCY_FACTOR
    latency_floor: float = 0.1
    expected_keys: int | None = None
    fewest: int = 20


@dataclass(frozen=True)
class Seen:
    """One look: traces by pod, latency by version, number of keys by version.

    :param ready: whether a pod is, by name; of the pods that were assigned a version.
    """

    ready: Mapping[str, bool] = field(default_factory=dict)
    traces: Mapping[str, list[str]] = field(default_factory=dict)
    latency: Mapping[str, Latency] = field(default_factory=dict)
    keys: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class History:
    """What earlier looks leave to the next one.

    :param first_seen: epoch seconds of the look that saw a version first.
    :param settled: mean seconds of versions that are no longer new.
    """

    first_seen: Mapping[str, float] = field(default_factory=dict)
    settled: Mapping[str, float] = field(default_factory=dict)

    def after(self, seen: Seen, limits: Limits, now: float) -> History:
        """What was there at the very first look is not new. A baseline stays until a successor has become one."""
        fallback = now if self.first_seen else now - NEW_SECONDS
        first_seen = {version: self.first_seen.get(version, fallback) for version in seen.latency}
        old = {version: one.mean for version, one in seen.latency.items()
               if now - first_seen[version] >= NEW_SECONDS and one.answers >= limits.fewest}
        return History(first_seen or self.first_seen, old or self.settled)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def of(cls, stored: Mapping[str, Any] | None) -> History:
        return cls(**stored) if stored else cls()


@dataclass(frozen=True)
class Breach:
    """``what`` is one of collision, latency and keys; ``subject`` the pod or version; two numbers and a sentence."""

    what: str
    subject: str
    seen: float
    limit: float
    reason: str


def judge(seen: Seen, history: History, limits: Limits, now: float) -> list[Breach]:
    """:param history: of the looks before this one, this one included (see :meth:`History.after`)."""
    return [*_collisions(seen), *_unready(seen), *_slow(seen, history, limits, now), *_grown(seen, limits)]


def _collisions(seen: Seen) -> Iterator[Breach]:
    for pod, found in seen.traces.items():
        if found:
            kinds = ", ".join(sorted(set(found)))
            yield Breach(COLLISION, pod, len(found), 0, f"pod {pod}: {len(found)} lines in its log tell of {kinds}")


def _unready(seen: Seen) -> Iterator[Breach]:
    if seen.ready and not any(seen.ready.values()):
        names = ", ".join(sorted(seen.ready))
        yield Breach(READY, names, 0, 1, f"none of {len(seen.ready)} pods is ready: {names}")


def _slow(seen: Seen, history: History, limits: Limits, now: float) -> Iterator[Breach]:
    for version, found in seen.latency.items():
        is_new = now - history.first_seen.get(version, now) < NEW_SECONDS
        if not is_new or found.answers < limits.fewest or not history.settled:
            continue
        before, slowest = max((mean, name) for name, mean in history.settled.items())
        limit = max(limits.latency_factor * before, limits.latency_floor)
        if found.mean > limit:
            yield Breach(LATENCY, version, found.mean, limit, (
                f"version {version}: {found.mean * 1000:.0f} ms for an answer ({found.answers:.0f} answers); "
                f"version {slowest} before it took {before * 1000:.0f} ms, the limit is {limit * 1000:.0f} ms"
            ))


def _grown(seen: Seen, limits: Limits) -> Iterator[Breach]:
    expected = limits.expected_keys
    for version, number in seen.keys.items():
        if expected is not None and number > expected:
            reason = f"version {version}: {number} keys in Redis, no more than {expected} are expected"
            yield Breach(KEYS, version, number, expected, reason)
