"""The lock's record: plain data and pure questions about it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields, replace

from airflow_provider_ragops.exceptions import LockRecordError

SCHEMA = 1


@dataclass(frozen=True)
class LockRecord:
    """Who holds the lock.

    ``holder`` is empty when it is free. Times are ISO 8601 and for people only: expiry is judged by how long a
    waiter has seen the record unchanged on its own clock. ``transitions`` is the token: it grows by one at each
    change of hand and is never reset, so a release keeps the record. ``renewals`` makes each renewal a change, also
    where the holder's wall clock stands still or is set back.
    """

    holder: str
    transitions: int
    lease_seconds: int
    acquire_time: str = ""
    renew_time: str = ""
    purpose: str = ""
    renewals: int = 0
    schema: int = SCHEMA

    @property
    def free(self) -> bool:
        return not self.holder

    def taken_by(self, holder: str, lease_seconds: int, purpose: str, now: str) -> LockRecord:
        return LockRecord(holder, self.transitions + 1, lease_seconds, now, now, purpose)

    def renewed(self, now: str, token: int = 0) -> LockRecord:
        """:param token: the lock's token rises to this one, where it is larger."""
        transitions = max(self.transitions, token)
        return replace(self, renew_time=now, renewals=self.renewals + 1, transitions=transitions)

    def released(self) -> LockRecord:
        return replace(self, holder="", purpose="", lease_seconds=1)

    def dump(self) -> str:
        return json.dumps(asdict(self), sort_keys=True)

    def describe(self) -> str:
        return f"{self.holder!r} since {self.acquire_time}, renewed {self.renew_time}, for {self.purpose!r}"


NEVER_HELD = LockRecord(holder="", transitions=0, lease_seconds=1)


def load(text: str, subject: str) -> LockRecord:
    """Read a record back.

    :raises LockRecordError: when the text is no record of a known schema: such a lock is never stolen.
    """
    try:
        found = json.loads(text)
        # Also a field too many: whoever wrote it may mean something by it that we would overwrite.
        found = {"renewals": 0, **found}  # a record from before they were counted
        known = set(found) == {field.name for field in fields(LockRecord)}
        record = LockRecord(**found) if known else None
    except (ValueError, TypeError) as error:
        raise _broken(subject, text) from error
    if record is None or any(type(value) is not type(getattr(NEVER_HELD, name)) for name, value in found.items()):
        raise _broken(subject, text)
    if record.schema != SCHEMA or record.transitions < 0 or record.lease_seconds < 1:
        raise _broken(subject, text)
    return record


def _broken(subject: str, text: str) -> LockRecordError:
    return LockRecordError(
        subject, expected=f"a lock record of schema {SCHEMA}", seen=repr(text[:200]),
        action="Find out who wrote it; once no release is running, delete the key 'record' of this ConfigMap.",
    )
