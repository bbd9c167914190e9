"""What happened to the lock and to the release record, in the API server's own order, and whether it was serial."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from airflow_provider_ragops.contract import ANNOTATION_RELEASE, ServingTarget
from airflow_provider_ragops.kube import Kube

Json = dict[str, Any]


@dataclass(frozen=True, order=True)
class Event:
    """One write. ``revision`` orders the writes to all objects: it is etcd's.

    :param holder: of the lock, ``""`` for none; None where the Deployment was written.
    :param number: the lock's transitions, or the record's token.
    """

    revision: int
    holder: str | None = field(compare=False)
    number: int = field(compare=False)
    body: Json = field(compare=False, default_factory=dict)


# Seconds of one watch. The next one goes on from the version that was seen last.
_WATCH = 60.0


class Witness:
    """Watches the lock and the record of a target from a thread each, and misses nothing or says so."""

    def __init__(self, target: ServingTarget, kube: Kube) -> None:
        self._kube = kube
        self._events: list[Event] = []
        self._errors: list[str] = []
        self._over = threading.Event()
        # By object, the version that was seen last.
        self._seen = {
            (f"/api/v1/namespaces/{target.namespace}/configmaps", target.lock_name): "",
            (f"/apis/apps/v1/namespaces/{target.namespace}/deployments", target.deployment): "",
        }

    def __enter__(self) -> Witness:
        for path, name in self._seen:
            found = self._kube.get(f"{path}/{name}")
            assert found is not None, f"{path}/{name} is not there"
            threading.Thread(target=self._follow, args=(path, name, found), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        """Wait until the last writes have been seen; the threads end with their watches."""
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline and not self._errors:
            if all(self._version(path, name) == seen for (path, name), seen in self._seen.items()):
                break
            time.sleep(0.2)
        else:
            self._errors.append(f"not seen to the end: {self._seen}")
        self._over.set()

    def _version(self, path: str, name: str) -> str:
        found = self._kube.get(f"{path}/{name}") or {"metadata": {"resourceVersion": "gone"}}
        return str(found["metadata"]["resourceVersion"])

    def events(self) -> list[Event]:
        assert not self._errors, self._errors
        return sorted(self._events)

    def holders(self) -> list[str]:
        """Who held the lock, one after the other."""
        found: list[str] = []
        for event in self.events():
            if event.holder and event.holder not in found[-1:]:
                found.append(event.holder)
        return found

    def _follow(self, path: str, name: str, found: Json) -> None:
        """The server may cut a watch at any time: go on where it stood, for as long as its history reaches back."""
        self._seen[path, name] = since = found["metadata"]["resourceVersion"]
        last = self._noted(found, None)
        try:
            while not self._over.is_set():
                began, heard = time.monotonic(), False
                for change in self._kube.watch(path, name, since, _WATCH):
                    version, heard = change["object"]["metadata"]["resourceVersion"], True
                    assert since or version == self._seen[path, name], f"unseen: {self._seen[path, name]} to {version}"
                    last = self._noted(change["object"], last)
                    self._seen[path, name] = since = version
                if not heard and time.monotonic() - began < 1:
                    since = ""  # the history is gone: begin with the object as it is, which must be what was seen last
        except Exception as error:  # whatever it is, a witness that went away proves nothing
            self._errors.append(f"{name}: {type(error).__name__}: {error}")

    def _noted(self, found: Json, last: Json | None) -> Json:
        """Keep what a release writes; the controller's own writes to the Deployment's status are none."""
        revision = int(found["metadata"]["resourceVersion"])
        if found["kind"] == "ConfigMap":
            record = json.loads((found.get("data") or {}).get("record", '{"holder": "", "transitions": 0}'))
            event = Event(revision, record["holder"], record["transitions"], record)
        else:
            record = json.loads((found["metadata"].get("annotations") or {}).get(ANNOTATION_RELEASE, '{"token": 0}'))
            event = Event(revision, None, record["token"], record | {"template": found["spec"]["template"]})
        if event.body != last:
            self._events.append(event)
        return event.body


def faults(events: Iterable[Event]) -> list[str]:
    """What is not strictly serial; empty for a good history.

    The first event of the record is where it stood. Tokens only grow; each is written by one hold, between the
    writes that took and that freed the lock; each hold has a number of its own, one more than the one before.
    """
    found: list[str] = []
    holder, transitions, token = "", None, None
    sealed_by: str | None = None  # unknown of the first token: it may be of a hold that was there before
    for event in events:
        if event.holder is not None:
            if event.holder and event.holder != holder and transitions not in (None, event.number - 1):
                found.append(f"hold {event.number} of {event.holder} follows hold {transitions}")
            holder, transitions = event.holder, event.number
            continue
        if token is not None and not holder:
            found.append(f"token {event.number} was written while nobody held the lock")
        if token is not None and event.number < token:
            found.append(f"token {event.number} follows token {token}")
        if token == event.number and sealed_by not in (None, holder):
            found.append(f"token {token} of {sealed_by} was written in the hold of {holder}")
        sealed_by, token = (None if token is None else holder), event.number
    return found
