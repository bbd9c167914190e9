"""Hold a lock for a block of code: acquire, renew from a thread, release on every way out."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from airflow_provider_ragops.exceptions import LockLostError, RagopsError
from airflow_provider_ragops.locking.lock import Lock

log = logging.getLogger(__name__)


@contextmanager
def held(lock: Lock) -> Iterator[Lock]:
    """The lock for a plain Python block; ask ``lock.check()`` before each effect in it.

    .. code-block:: python

        store = ConfigMapStore(ServingHook().kube, "ml-serving", "nightly-export")
        with held(Lock(store, "export/2026-01-01", "export of the vector store")) as lock:
            for part in parts:
                lock.check(spare=5)   # raises LockLostError where the hold may end within 5 seconds
                write(part)
    """
    done = threading.Event()
    thread = threading.Thread(target=_keep_renewing, args=(lock, done), daemon=True, name="lock-renewal")
    try:
        # Inside: a task's timeout may strike between the write that took the lock and the return.
        lock.acquire()
        thread.start()
        yield lock
    finally:
        done.set()
        if thread.ident is not None:
            thread.join(timeout=30)
        lock.release()


def _keep_renewing(lock: Lock, done: threading.Event) -> None:
    """Four renewals within the deadline; after a failed one sooner, or one hung request would cost the hold."""
    period = lock.times.renew_deadline / 4
    pause = period
    while not done.wait(pause):
        try:
            lock.renew()
            pause = period
        except LockLostError as error:
            log.error("lock renewal stopped: %s", error)  # noqa: TRY400 - the message is whole, a trace adds nothing
            return
        except RagopsError as error:
            # The hold ends by its own clock if this does not pass.
            log.warning("lock renewal: %s", error)
            pause = min(period, lock.times.retry)
