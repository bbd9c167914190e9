"""The version's marker in Redis: whose the keys are. Written before the first key, and outliving the last.

Every look at it is one compare-and-set on the server, which also renews its time to live; so two pods that start
together agree, and a marker of another model or training run stays what it is.
"""

from __future__ import annotations

import logging
from typing import Literal

from airflow_provider_ragops import contract
from airflow_provider_ragops.exceptions import CacheKeyCollisionError
from airflow_provider_ragops.workloads.serving.cache.client import Client, Clock
from airflow_provider_ragops.workloads.serving.cache.settings import Limits
from airflow_provider_ragops.workloads.serving.cache.values import Identity

log = logging.getLogger(__name__)

# What it says; nothing where it is ours, or where there was none and we may write it. 'none': there is none.
_COMPARE = """
local kind = redis.call('TYPE', KEYS[1]).ok
if kind == 'none' then
  if ARGV[8] ~= '1' then return {'none'} end
  redis.call('HSET', KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6])
elseif kind ~= 'hash' then
  return {'other', '', '', ''}
else
  local found = redis.call('HMGET', KEYS[1], ARGV[1], ARGV[3], ARGV[5])
  for place = 1, 3 do
    if found[place] ~= ARGV[2 * place] then return {'other', found[1] or '', found[2] or '', found[3] or ''} end
  end
end
redis.call('PEXPIRE', KEYS[1], ARGV[7])
return {'ours'}
"""

#: ``unknown``: not looked at yet, or Redis did not answer.
Standing = Literal["unknown", "ours", "missing", "foreign"]


class Marker:
    """``standing`` is what the last look found; keys are written only while it is ``ours``."""

    def __init__(self, identity: Identity, key: str, client: Client, limits: Limits, clock: Clock) -> None:
        self._identity, self._key, self._client, self._limits, self._clock = identity, key, client, limits, clock
        self._renewed = float("-inf")  # when it was ours last
        self._closed_until = float("-inf")
        self.standing: Standing = "unknown"
        self._seen = ""

    @property
    def may_be_asked(self) -> bool:
        """Not while it was just found missing or another's: a clean-up, and a person, get time to end."""
        return self._clock() >= self._closed_until

    @property
    def is_lost(self) -> bool:
        """It was found missing or another's a short while ago: neither read nor write."""
        return self.standing in ("missing", "foreign") and not self.may_be_asked

    async def claim(self, seconds: float) -> None:
        """Write it, or find that it is ours, or (see :attr:`standing`) that it vanished a short while ago.

        :raises CacheKeyCollisionError: another model, training run or dimension has the number.
        :raises link.Unavailable: Redis does not say.
        """
        if not await self.is_ours(seconds) and self.standing == "foreign":
            raise CacheKeyCollisionError(
                f"marker {self._key}", expected=self._ours, seen=self._seen,
                action="Two models must not share a prefix: give each serving target its own. Where the registered "
                       "model was deleted and made anew, remove the old version's keys first "
                       "(cache.cleanup.clean_stale).",
            )

    async def is_ours(self, seconds: float) -> bool:
        """Look before keys are written. One that vanished is written anew only after the pause.

        :raises link.Unavailable: Redis does not say.
        """
        # An idle pod's marker ends with its time to live, and all of its keys ended before.
        idle = self._clock() - self._renewed >= self._limits.marker_ttl
        await self._compare(seconds, may_write=idle or (self.standing != "ours" and self.may_be_asked))
        return self.standing == "ours"

    async def _compare(self, seconds: float, *, may_write: bool) -> None:
        identity = self._identity
        reply = await self._client.call(
            self._key, "EVAL", _COMPARE, 1, self._key, contract.MARKER_MODEL, identity.model, contract.MARKER_RUN,
            identity.run, contract.MARKER_DIMENSION, str(identity.dimension),
            int(self._limits.marker_ttl * 1000), int(may_write), seconds=seconds,
        )
        answer, *found = (bytes(part).decode(errors="replace") for part in reply)
        now = self._clock()
        if answer == "ours":
            self._becomes("ours", "")
            self._renewed, self._closed_until = now, float("-inf")
        else:
            standing: Standing = "foreign" if answer == "other" else "missing"
            if standing != self.standing or self.may_be_asked:
                self._closed_until = now + self._limits.reclaim
            seen = "model {!r}, run {!r}, dimension {!r}".format(*found) if answer == "other" else "no marker"
            self._becomes(standing, seen)

    def _becomes(self, standing: Standing, seen: str) -> None:
        if standing != self.standing and (standing != "ours" or self.standing != "unknown"):
            log.warning("marker %s: %s%s", self._key, standing, f": {seen}" if seen else "")
        self.standing, self._seen = standing, seen

    @property
    def _ours(self) -> str:
        identity = self._identity
        return f"model {identity.model!r}, run {identity.run!r}, dimension {str(identity.dimension)!r}"
