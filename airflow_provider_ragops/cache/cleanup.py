"""Remove the Redis keys of model versions that nothing refers to any more.

Only keys that begin exactly like one version's are touched (``v1:`` is no beginning of ``v10:``), and only where that
version's marker names our model. The marker goes last, after a pass that found nothing, so an interrupted clean-up is
found again by the next one.

SCAN finds every key only once nobody writes any more. A version with a live pod, Terminating included, is therefore
waited for; one whose keys keep coming back keeps its marker and is reported. What is written later still, by a
process that nobody knows of, is left to its time to live.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from airflow_provider_ragops.cache.inventory import stale, unreferenced
from airflow_provider_ragops.cache.marker import Marker, markers, read_marker, remove_marker
from airflow_provider_ragops.cache.scanning import pages, patterns
from airflow_provider_ragops.contract import marker_key
from airflow_provider_ragops.exceptions import CleanupRefusedError

log = logging.getLogger(__name__)

#: Versions in use, and who refers to each: ``{"7": "champion alias, served by ml-serving/mlflow-serve"}``.
References = Mapping[str, str]

_BATCH = 500
_PASSES = 10
_REWRITTEN = "its marker was written anew meanwhile: another pod uses the number"


@dataclass(frozen=True)
class Conditions:
    """Under what a clean-up works.

    :param live: asks the cluster which versions have a pod, Terminating included, and names one pod of each.
    :param guard: called before each effect; raises where the hold is lost or the task is to stop.
    :param timeout: seconds for all of it, waiting for pods included; what is not done by then is reported.
    :param poll: seconds between two looks at the pods.
    """

    live: Callable[[], Mapping[str, str]] = dict
    guard: Callable[[], None] = lambda: None
    timeout: float = 300.0
    poll: float = 2.0
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


@dataclass(frozen=True)
class CleanupReport:
    """``removed`` counts keys by version, markers included; ``left`` says why a version's keys are still there.

    The server counts: a reply that was lost makes a count too low, never too high.
    """

    removed: dict[str, int] = field(default_factory=dict)
    left: dict[str, str] = field(default_factory=dict)


def clean_versions(
    client: Any, prefix: str, model: str, keep: References, conditions: Conditions = Conditions(),
) -> CleanupReport:
    """Remove the keys of every version of ``model`` but those in ``keep``.

    :raises CleanupRefusedError: when nothing is to be kept: whoever serves a model needs a version of it.
    """
    if not keep:
        raise _refused(prefix, f"all versions of {model}", "no version that is to be kept",
                       "Name the versions in use; to remove one version's keys, ask for it by number.")
    found = markers(client, prefix)
    doomed = unreferenced(found, model, keep)
    foreign = {version: f"its marker names {marker.model or 'no model'}, not {model}"
               for version, marker in found.items() if marker.model != model and version not in keep}
    return _Cleanup(client, prefix, conditions).run(doomed, foreign)


def clean_version(
    client: Any, prefix: str, model: str, version: str, keep: References,
    conditions: Conditions = Conditions(),
) -> CleanupReport:
    """Remove the keys of this one version.

    :raises CleanupRefusedError: naming who refers to it, or the other model that its marker names.
    """
    if not (version.isascii() and version.isdigit()):
        raise _refused(prefix, f"version {version!r}", "it is no version number", "Give a number.")
    if version in keep:
        raise _refused(prefix, f"version {version} of {model}", f"it is needed by {keep[version]}",
                       "Release another version first, or wait until nothing refers to it.")
    marker = read_marker(client, prefix, version)
    if marker is None:
        ours = any(page for pattern in patterns(prefix, version) for page in pages(client, pattern))
        reason = {version: f"no marker {marker_key(prefix, version)} says whose the keys are"} if ours else {}
        return CleanupReport({} if ours else {version: 0}, reason)
    if marker.model != model:
        raise _refused(prefix, f"version {version} of {model}",
                       f"marker {marker_key(prefix, version)} names {marker.model or 'no model'}",
                       "Two models must not share a prefix: give each serving target its own.")
    return _Cleanup(client, prefix, conditions).run({version: marker}, {})


def clean_stale(
    client: Any, prefix: str, model: str, runs: Mapping[str, str], conditions: Conditions = Conditions(),
) -> CleanupReport:
    """Remove the keys of versions whose number now belongs to another training run; see :func:`inventory.stale`.

    Who refers to the number refers to the new version, so references don't protect the old one's keys. Live pods do.
    """
    doomed = {version: Marker(model, run) for version, run in stale(client, prefix, model, runs).items()}
    return _Cleanup(client, prefix, conditions).run(doomed, {})


def _refused(prefix: str, what: str, seen: str, action: str) -> CleanupRefusedError:
    return CleanupRefusedError(
        f"clean-up of {what} under Redis prefix {prefix!r}", expected="keys that nothing refers to", seen=seen,
        action=action,
    )


class _Cleanup:
    """One run over versions that may go."""

    def __init__(self, client: Any, prefix: str, conditions: Conditions) -> None:
        self._client, self._prefix, self._conditions = client, prefix, conditions
        self._until = conditions.clock() + conditions.timeout
        self._removed: dict[str, int] = {}

    def run(self, doomed: Mapping[str, Marker], left: dict[str, str]) -> CleanupReport:
        pending = dict(doomed)
        while pending:
            busy = self._conditions.live()
            for version in sorted(pending.keys() - busy.keys(), key=int):
                if reason := self._version(version, pending.pop(version)):
                    left[version] = reason
            if self._is_late():
                left |= {version: f"pod {busy[version]} is still there" for version in pending}
                break
            if pending:
                self._conditions.guard()
                self._conditions.sleep(self._conditions.poll)
        for version, reason in left.items():
            log.warning("Redis prefix %r: keys of version %s are left: %s", self._prefix, version, reason)
        return CleanupReport(self._removed, left)

    def _version(self, version: str, marker: Marker) -> str:
        """Repeat until a pass finds nothing; the reason where something is left."""
        self._removed[version] = 0
        if read_marker(self._client, self._prefix, version) != marker:
            return _REWRITTEN  # while we waited for its pods
        for _ in range(_PASSES):
            gone, complete = self._pass(version)
            self._removed[version] += gone
            if not complete:
                return f"no time left after {self._conditions.timeout:g} s; the next clean-up goes on"
            if not gone:
                return self._finish(version, marker)
        return f"someone still writes them: {gone} more came during the last of {_PASSES} passes"

    def _pass(self, version: str) -> tuple[int, bool]:
        """Remove what one look at all keys finds; how many, and whether the look came to its end."""
        gone = 0
        for pattern in patterns(self._prefix, version):
            for page in pages(self._client, pattern):
                for start in range(0, len(page), _BATCH):
                    self._conditions.guard()
                    # Bytes: a key that is no text was decoded so, and redis-py with hiredis can't encode it again.
                    batch = [key.encode(errors="surrogateescape") for key in page[start:start + _BATCH]]
                    gone += int(self._client.unlink(*batch))
                if self._is_late():
                    return gone, False
        return gone, True

    def _finish(self, version: str, marker: Marker) -> str:
        if pod := self._conditions.live().get(version):
            return f"pod {pod} came up meanwhile"
        self._conditions.guard()
        if not remove_marker(self._client, self._prefix, version, marker):
            return _REWRITTEN
        self._removed[version] += 1
        log.info("Redis prefix %r: removed %d keys of version %s", self._prefix, self._removed[version], version)
        return ""

    def _is_late(self) -> bool:
        return self._conditions.clock() >= self._until
