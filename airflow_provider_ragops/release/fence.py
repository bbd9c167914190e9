"""The fence: a token in the Deployment that every write of a release must still find there.

The lock alone cannot stop a paused former holder. The seal can: the new holder first writes its token into the
release record by compare-and-swap, and each later write reads, compares and replaces by the same version.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any, TypeVar

from airflow_provider_ragops.contract import ServingTarget
from airflow_provider_ragops.exceptions import ConflictError, FencedOutError, TargetError, UnreachableError
from airflow_provider_ragops.release.record import ReleaseRecord, read_record
from airflow_provider_ragops.rollout.plan import USUAL, Change, Strategy
from airflow_provider_ragops.rollout.reading import version_of
from airflow_provider_ragops.rollout.updater import Updater

log = logging.getLogger(__name__)
Json = dict[str, Any]
Answer = TypeVar("Answer")


class Fence:
    """All writes of one release to one target.

    :param guard: called before each write; raises when the lock is lost or the task was told to stop.
    :param tries: how often a write is tried again after a conflict (status updates of the controller change the
        resourceVersion all the time) or an API server that does not answer; ``pause`` seconds apart.
    """

    def __init__(
        self, updater: Updater, target: ServingTarget, guard: Callable[[], None], *,
        tries: int = 20, pause: float = 0.5, sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._updater, self._target, self._guard = updater, target, guard
        self._tries, self._pause, self._sleep = tries, pause, sleep
        self.token = 0

    def seal(self, lock_token: int) -> tuple[Json, ReleaseRecord]:
        """Write max(lock, record) + 1 into the record; only what is read from then on counts."""

        def sealed(found: Json) -> Change:
            record = self.record(found) or ReleaseRecord(model=self._target.model)
            if self.token <= max(lock_token, record.token):
                # Also a repeat after a lost reply: a second seal by us is harmless, a reused token is not.
                self.token = max(lock_token, record.token) + 1
            return Change(record.sealed(self.token).dump())

        found = self._write(sealed)
        record = self.record(found)
        assert record is not None  # noqa: S101 - it was just written
        log.info("%s is sealed with token %d", self._target.slug, self.token)
        return found, record

    def write(self, record: ReleaseRecord, version: str | None = None, strategy: Strategy = USUAL) -> Json:
        """Write the record, and with it MODEL_VERSION if given, to be rolled out by the strategy.

        :raises FencedOutError: when the target carries another token than ours.
        """

        def fenced(found: Json) -> Change:
            self._still_ours(found)
            return Change(record.sealed(self.token).dump(), version, strategy=strategy)

        return self._write(fenced)

    def check(self) -> None:
        """Ask, before or after what can't be fenced, whether the target is still ours.

        :raises FencedOutError: when it is not.
        """
        self._retried(lambda: self._still_ours(self._updater.read()))

    def record(self, found: Json) -> ReleaseRecord | None:
        return read_record(found, self._target.model, f"Deployment {self._target.slug}")

    def _still_ours(self, found: Json) -> None:
        record = self.record(found)
        if record is None or record.token != self.token:
            raise FencedOutError(
                f"Deployment {self._target.slug}", expected=f"our token {self.token} (mine)",
                seen=f"token {record.token if record else 'none'} (current)",
                action="Another release, or a new Deployment, took its place; nothing more was written.",
            )
        template = version_of(found["spec"]["template"], self._target.container)
        if template != record.to_version:
            raise TargetError(
                f"Deployment {self._target.slug}", expected=f"MODEL_VERSION {record.to_version or 'unset'}",
                seen=template or "unset", action="Someone edited it during the release; nothing was written.",
            )

    def _write(self, change: Callable[[Json], Change]) -> Json:
        def once() -> Json:
            found = self._updater.read()
            wanted = change(found)
            # Asked after the read: whoever is paused from here on meets a changed resourceVersion.
            self._guard()
            return self._updater.write(found, wanted)

        return self._retried(once)

    def _retried(self, call: Callable[[], Answer]) -> Answer:
        for left in range(self._tries - 1, -1, -1):
            try:
                return call()
            except (ConflictError, UnreachableError) as error:
                if not left:
                    raise
                log.info("%s: tried again: %s", self._target.slug, error)
                self._sleep(self._pause)
        raise AssertionError("unreachable: the last try returns or raises")
