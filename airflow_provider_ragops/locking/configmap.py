"""The lock's store on a ConfigMap: the one file here that knows the Kubernetes object."""

from __future__ import annotations

import copy
import math
from contextlib import closing

from airflow_provider_ragops.kube import Json, Kube
from airflow_provider_ragops.locking.record import NEVER_HELD, LockRecord, load
from airflow_provider_ragops.locking.store import Stored

KEY = "record"


class ConfigMapStore:
    """Keeps the record under one data key; other keys, labels and annotations are never touched.

    The object has no owner and no finalizer: deleting the Deployment must not reset the token, and a dead holder
    must not hang the namespace's deletion. It is never deleted to release the lock.
    """

    def __init__(self, kube: Kube, namespace: str, name: str) -> None:
        self._kube = kube
        self._namespace = namespace
        self._name = name
        self._collection = f"/api/v1/namespaces/{namespace}/configmaps"

    @property
    def subject(self) -> str:
        return f"lock {self._namespace}/{self._name}"

    @property
    def request_timeout(self) -> float:
        return self._kube.timeout

    def read(self) -> Stored | None:
        found = self._kube.get(f"{self._collection}/{self._name}")
        return None if found is None else self._stored(found)

    def write(self, record: LockRecord, seen: Stored | None) -> Stored:
        if seen is None:
            metadata = {"name": self._name, "namespace": self._namespace}
            body: Json = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {KEY: record.dump()}}
            return self._stored(self._kube.create(self._collection, body))
        body = copy.deepcopy(seen.body)
        body["data"] = {**(body.get("data") or {}), KEY: record.dump()}
        return self._stored(self._kube.replace(f"{self._collection}/{self._name}", body))

    def wait_change(self, seen: Stored, seconds: float) -> bool:
        # The API server counts a watch in whole seconds; one object by name, so that a Role can name it.
        whole = math.floor(seconds)
        if whole < 1:
            return False
        with closing(self._kube.watch(self._collection, self._name, seen.version, whole)) as events:
            return next(events, None) is not None

    def _stored(self, found: Json) -> Stored:
        text = (found.get("data") or {}).get(KEY)
        # An object without our key (made by a chart, say) is a lock that nobody ever held.
        record = NEVER_HELD if text is None else load(text, self.subject)
        return Stored(record, found["metadata"]["resourceVersion"], found)
