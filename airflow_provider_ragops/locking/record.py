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
    change of hand and is never reset, so a release keeps the record.
    """

    holder: str
    transitions: int
    lease_seconds: int
    acquire_time: str = ""
    renew_time: str = ""
    purpose: str = ""
    schema: int = SCHEMA

    @property
    def free(self) -> bool:
        return not self.holder

    def taken_by(self, holder: str, lease_seconds: int, purpose: str, now: str) -> LockRecord:
        return LockRecord(holder, self.transitions + 1, lease_seconds, now, now, purpose)

    def renewed(self, now: str) -> LockRecord:
        return replace(self, renew_time=now)

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
        record = LockRecord(**{field.name: found[field.name] for field in fields(LockRecord)})
    except (ValueError, KeyError, TypeError) as error:
        raise _broken(subject, text) from error
    numbers = (record.transitions, record.lease_seconds, record.schema)
    if any(type(number) is not int for number in numbers) or not isinstance(record.holder, str):
        raise _broken(subject, text)
    if record.schema != SCHEMA or record.transitions < 0 or record.lease_seconds < 1:
        raise _broken(subject, text)
    return record


def _broken(subject: str, text: str) -> LockRecordError:
    return LockRecordError(
        subject, expected=f"a lock record of schema {SCHEMA}", seen=repr(text[:200]),
        action="Find out who wrote it; once no release is running, delete the key 'record' of this ConfigMap.",
    )
