"""The lock's token and the one in the protected object: the next is larger than every one that was ever used."""

from __future__ import annotations

import copy

from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_ragops.contract import ANNOTATION_RELEASE, ServingTarget
from airflow_provider_ragops.locking.configmap import ConfigMapStore
from airflow_provider_ragops.locking.lock import Lock
from airflow_provider_ragops.release.fence import Fence
from airflow_provider_ragops.rollout.updater import Updater
from tests.fakes.kube import FakeTier

TARGET = ServingTarget("ml-serving", "M")
LOCK = f"/api/v1/namespaces/{TARGET.namespace}/configmaps/{TARGET.lock_name}"


def hold_and_seal(tier: FakeTier, raise_lock: bool = True) -> int:
    """One release's beginning and end; returns its token."""
    store = ConfigMapStore(tier, TARGET.namespace, TARGET.lock_name)  # type: ignore[arg-type]
    lock = Lock(store, "a", "a test", clock=tier.time.clock, sleep=tier.time.sleep)
    updater = Updater(tier, TARGET, clock=tier.time.clock, sleep=tier.time.sleep)  # type: ignore[arg-type]
    fence = Fence(updater, TARGET, lock.check)
    fence.seal(lock.acquire())
    if raise_lock:
        lock.renew(fence.token)
    lock.release()
    return fence.token


def undo_by_hand(tier: FakeTier, annotation: str | None) -> None:
    """What ``kubectl rollout undo`` does: the annotations come back as they were with the older ReplicaSet."""
    body = copy.deepcopy(tier.deployment)
    body["metadata"]["annotations"] = {ANNOTATION_RELEASE: annotation} if annotation else {}
    tier.put(tier.path, body)


def annotation_of(tier: FakeTier) -> str | None:
    found: str | None = tier.deployment["metadata"]["annotations"].get(ANNOTATION_RELEASE)
    return found


def test_deleted_lock_does_not_turn_tokens_back() -> None:
    """L5: with the lock's object deleted, the next token is larger than the one in the Deployment."""
    tier = FakeTier()
    tokens = [hold_and_seal(tier) for _ in range(3)]
    del tier.objects[LOCK]
    tokens.append(hold_and_seal(tier))
    assert tokens == sorted(set(tokens))


def test_undo_by_hand_does_not_turn_tokens_back() -> None:
    """L5: with the Deployment's annotation set back by hand, the next token is larger than the lock's."""
    tier = FakeTier()
    tokens = [hold_and_seal(tier)]
    old = annotation_of(tier)
    tokens += [hold_and_seal(tier) for _ in range(3)]
    undo_by_hand(tier, old)
    tokens.append(hold_and_seal(tier))
    assert tokens == sorted(set(tokens))


@given(st.lists(st.sampled_from(("hold", "hold", "delete the lock", "undo by hand", "undo to nothing")), max_size=25))
@settings(max_examples=150, deadline=None, derandomize=True, database=None)
def test_tokens_only_grow_whatever_people_do(steps: list[str]) -> None:
    """L5: holds, deleted locks and undone Deployments in any order, as long as a release comes between two of the
    latter: no token is used twice or after a larger one. Both are then never behind at once."""
    tier = FakeTier()
    tokens = [hold_and_seal(tier)]
    seen = [annotation_of(tier)]
    touched = False
    for number, step in enumerate(steps):
        if step == "hold":
            tokens.append(hold_and_seal(tier))
            seen.append(annotation_of(tier))
            touched = False
        elif not touched:
            touched = True
            if step == "delete the lock":
                del tier.objects[LOCK]
            else:
                undo_by_hand(tier, seen[number % len(seen)] if step == "undo by hand" else None)
    tokens.append(hold_and_seal(tier))
    assert tokens == sorted(set(tokens))


def test_without_raising_the_lock_a_token_would_come_again() -> None:
    """L5, L17: the negative control: the lock deleted long ago, then an undo by hand, and the lock never told."""
    tier = FakeTier()
    tokens = [hold_and_seal(tier, raise_lock=False) for _ in range(3)]
    old = annotation_of(tier)
    del tier.objects[LOCK]
    tokens += [hold_and_seal(tier, raise_lock=False) for _ in range(3)]
    undo_by_hand(tier, old)
    assert hold_and_seal(tier, raise_lock=False) in tokens
