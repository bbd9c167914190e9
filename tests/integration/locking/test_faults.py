"""The lock on a real API server behind a proxy that loses, delays and invents answers."""

from __future__ import annotations

import threading
import time
from collections import Counter

import pytest

from airflow_provider_ragops.exceptions import ClusterError, LockLostError, UnreachableError
from airflow_provider_ragops.locking.holding import held
from airflow_provider_ragops.locking.lock import Lock
from airflow_provider_ragops.locking.record import NEVER_HELD
from airflow_provider_ragops.locking.times import LockTimes
from tests.fakes.proxy import FaultyProxy
from tests.integration.locking.conftest import STEADY, TIMES, Place

pytestmark = pytest.mark.cluster

WATCH, READ, WRITE = r"watch=true", r"/configmaps/the-lock$", r"/configmaps"
PATIENT = LockTimes(lease=9, renew_deadline=6, retry=3, wait=30)


def proxied(place: Place, proxy: FaultyProxy, holder: str = "a", times: LockTimes = TIMES) -> Lock:
    return place.lock(holder, times, place.kube(proxy.client()))


def status(code: int, reason: str) -> dict[str, object]:
    return {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "message": reason}


@pytest.mark.parametrize(("method", "path"), [("GET", READ), ("POST", WRITE), ("PUT", WRITE)])
@pytest.mark.parametrize(("code", "action"), [
    (401, "credentials"), (403, "Grant this verb"), (422, "the object was refused"),
])  # fmt: skip
def test_refusal_fails_at_once(
    place: Place, proxy: FaultyProxy, method: str, path: str, code: int, action: str, evidence: Counter[str],
) -> None:
    """L12: 401, 403 and 422 are not tried again; the error names verb, object, reason and what to do."""
    if method == "PUT":
        place.store().write(NEVER_HELD, None)
    rule = proxy.fail(method, path, times=None, status=code, body=status(code, f"for test {code}"))
    with pytest.raises(ClusterError, match=rf"{method} /api/v1/.*/configmaps.*{code} for test {code}.*{action}"):
        proxied(place, proxy).acquire()
    assert rule.hits == 1
    evidence["faults injected"] += 1


FAULTS = {
    "429": {"status": 429, "headers": {"Retry-After": "1"}, "body": status(429, "slow down")},
    "500": {"status": 500, "body": status(500, "etcd has no leader")},
    "503": {"status": 503, "body": "upstream connect error"},
    "504": {"status": 504, "body": ""},
    "not JSON": {"status": 200, "body": "<html>sign in</html>"},
    "half JSON": {"status": 200, "body": '{"metadata": {'},
    "cut": {"cut": True},
    "hang": {"hang": True},
    "applied, then cut": {"drop_reply": True},
    "applied, then 504": {"drop_reply": True, "status": 504, "body": "gateway timeout"},
    "applied, then not JSON": {"drop_reply": True, "status": 200, "body": "<html>sign in</html>"},
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize(("method", "path"), [("GET", READ), ("POST", WRITE), ("PUT", WRITE)])
def test_what_may_pass_is_tried_again(
    place: Place, proxy: FaultyProxy, method: str, path: str, fault: str, evidence: Counter[str],
) -> None:
    """L3, L12: throttled, failed, cut, hung, garbled, or applied with the reply lost: the lock is had by the next try
    or two, the token grows once, and the process recognises itself."""
    if method == "PUT":
        place.store().write(NEVER_HELD, None)
    rule = proxy.fail(method, path, times=1, **FAULTS[fault])
    lock = proxied(place, proxy, times=STEADY)
    began = time.monotonic()
    assert lock.acquire() == 1
    waited = time.monotonic() - began
    assert rule.hits == 1
    assert waited < 6  # it did not wait for its own lease to end
    if fault == "429":
        assert waited >= 1
    assert place.record().holder == lock.identity
    lock.check()
    lock.release()
    assert place.record().free
    evidence["faults injected"] += 1


@pytest.mark.parametrize("fault", ["cut", "hang", "applied, then cut", "applied, then 504", "500"])
def test_renewal_survives_a_fault(
    place: Place, proxy: FaultyProxy, fault: str, evidence: Counter[str],
) -> None:
    """L3, L7: one renewal that fails, or whose reply is lost and that then meets its own write, costs no hold."""
    lock = proxied(place, proxy, times=STEADY)
    lock.acquire()
    rule = proxy.fail("PUT", WRITE, **FAULTS[fault])
    with pytest.raises(UnreachableError):
        lock.renew()
    lock.renew()
    lock.check()
    assert rule.hits == 1
    assert lock.token == place.record().transitions == 1
    evidence["faults injected"] += 1


@pytest.mark.parametrize("fault", ["hang", "cut"])
def test_work_stops_before_others_may_start(
    place: Place, proxy: FaultyProxy, fault: str, evidence: Counter[str],
) -> None:
    """L7: cut off from the API server, the holder stops within its renewal deadline; only then does another get the
    lock. The error names the lock, the holder and the age."""
    taken: list[float] = []

    def succeed() -> None:
        place.lock("b").acquire()
        taken.append(time.monotonic())

    times = LockTimes(lease=3, renew_deadline=2, retry=0.2, wait=20)
    with held(proxied(place, proxy, times=times)) as lock:
        successor = threading.Thread(target=succeed)
        successor.start()
        time.sleep(0.5)
        lock.check()
        proxy.fail(".*", ".*", times=None, **FAULTS[fault])
        cut = time.monotonic()
        stopped = _work_until_lost(lock)
        assert stopped - cut <= 2
        successor.join(timeout=30)
        proxy.clear()
    assert stopped < taken[0]
    assert place.record().holder.startswith("b/")  # A's release at the end of the block changed nothing
    evidence["faults injected"] += 1


def _work_until_lost(lock: Lock) -> float:
    """The last moment at which the holder still believed to hold it."""
    last = 0.0

    def work() -> None:
        nonlocal last
        while True:
            asked = time.monotonic()
            lock.check()
            last = asked
            time.sleep(0.02)

    with pytest.raises(LockLostError, match=r"lock lock-\w+/the-lock.*a/[-0-9a-f]{36}.*last renewed \d\.\d s ago"):
        work()
    return last


def test_late_renewal_changes_nothing(place: Place, proxy: FaultyProxy, evidence: Counter[str]) -> None:
    """L1: a renewal that was sent in time and arrives after another one took the lock is refused by the server."""
    first = place.lock("a", TIMES, place.kube(proxy.client(), timeout=0.6))
    first.acquire()
    gate = threading.Event()
    rule = proxy.fail("PUT", WRITE, delay=gate)
    with pytest.raises(UnreachableError):
        first.renew()
    second = place.lock("b")
    second.acquire()
    before = place.object()
    gate.set()
    assert rule.applied.wait(timeout=10)
    assert place.object() == before
    evidence["faults injected"] += 1


def test_release_wakes_the_waiter(place: Place, proxy: FaultyProxy) -> None:
    """A waiter learns of a release by its watch, long before its retry pause, and asks nothing in the meantime."""
    first = place.lock("a", PATIENT, place.kube(timeout=3))
    first.acquire()
    waiting = proxy.fail("GET", WATCH, delay=0)
    done: list[float] = []

    def wait() -> None:
        place.lock("b", PATIENT, place.kube(proxy.client(), timeout=3)).acquire()
        done.append(time.monotonic())

    waiter = threading.Thread(target=wait)
    waiter.start()
    assert waiting.arrived.wait(timeout=10)
    time.sleep(1)
    freed = time.monotonic()
    first.release()
    waiter.join(timeout=30)
    assert done[0] - freed < 0.2 * 3 + 0.4
    assert [method for method, _ in proxy.requests] == ["GET", "GET", "GET", "PUT"]  # read, watch, read, take


WATCH_FAULTS = {
    "gone, told in the stream": {"gone": True},
    "gone, told as a status": {"status": 410, "body": status(410, "too old resource version")},
    "cut at once": {"cut_stream_after": 0},
    "never answered": {"hang": True},
    "refused now": {"status": 500, "body": status(500, "no leader")},
    "not JSON": {"status": 200, "body": "<html>sign in</html>\n"},
}


@pytest.mark.parametrize("fault", WATCH_FAULTS)
def test_watch_that_fails_means_read_again(
    place: Place, proxy: FaultyProxy, fault: str, evidence: Counter[str],
) -> None:
    """R12: whatever happens to the watch, the waiter takes over after one whole lease, and it does not spin."""
    place.lock("dead").acquire()
    rule = proxy.fail("GET", WATCH, times=None, **WATCH_FAULTS[fault])
    began = time.monotonic()
    assert proxied(place, proxy, "b").acquire() == 2
    assert 2 <= time.monotonic() - began < 4.5
    assert rule.hits >= 1
    assert len(proxy.requests) <= 2 * (2 / 0.2) + 4
    evidence["faults injected"] += 1


def test_watch_starts_from_what_was_read(place: Place, proxy: FaultyProxy) -> None:
    """R12: a release between the waiter's read and its watch is not missed."""
    first = place.lock("a", PATIENT, place.kube(timeout=3))
    first.acquire()
    gate = threading.Event()
    late = proxy.fail("GET", WATCH, delay=gate)
    done: list[float] = []

    def wait() -> None:
        place.lock("b", PATIENT, place.kube(proxy.client(), timeout=3)).acquire()
        done.append(time.monotonic())

    waiter = threading.Thread(target=wait)
    waiter.start()
    assert late.arrived.wait(timeout=10)
    first.release()
    gate.set()
    began = time.monotonic()
    waiter.join(timeout=30)
    assert done[0] - began < 0.2 * 3 + 0.4
