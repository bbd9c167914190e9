"""Every external effect of a process, numbered: lock, record, pods, alias, tags, ledger, keys."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.unit.release.world import World

# What one process writes, in order. Asserted in test_crash.py: a change of the procedure has to be met here.
RELEASE = [
    "replace", "replace", "replace",  # the lock, the seal, the lock's token
    "clean_stale", "create", "delete",  # keys under its number; the pod beside the tier
    "open", "replace", "replace",  # the ledger; the record with MODEL_VERSION; verified
    "replace", "set_alias", "set_tags", "set_tags", "delete_alias", "close",  # the lock is renewed; alias, tags, ledger
    "replace", "clean", "replace",  # done; keys; the lock is free
]  # fmt: skip
UNDO = [
    "replace", "replace", "replace", "clean_stale", "create", "delete", "open", "replace",  # up to the first bad answer
    "replace", "set_tags", "close", "replace", "replace",  # back; quarantine, ledger; undone; the lock is free
]  # fmt: skip
ROLLBACK = [
    "replace", "replace", "replace", "replace",  # the lock, the seal, the lock's token, back
    "replace", "set_alias", "set_tags", "open", "close",  # renewed; alias, quarantine, ledger
    "replace", "replace",  # done; the lock is free
]  # fmt: skip


@dataclass
class Effects:
    """Counts effects, and calls ``at_nth`` around the n-th: before it is applied, or after, before the reply."""

    nth: int = 0
    after: bool = False
    at_nth: Callable[[], None] = lambda: None
    names: list[str] = field(default_factory=list)
    _on: bool = True

    def around(self, name: str, call: Callable[..., object]) -> Callable[..., object]:
        def effect(*args: object, **named: object) -> object:
            if not self._on:
                return call(*args, **named)
            self.names.append(name)
            mine = len(self.names) == self.nth
            if mine and not self.after:
                self._act()
            answer = call(*args, **named)
            if mine and self.after:
                self._act()
            return answer

        return effect

    def _act(self) -> None:
        self._on = False  # what others do meanwhile is not counted
        self.at_nth()
        self._on = True


@contextmanager
def watched(world: World, effects: Effects) -> Iterator[Effects]:
    """Put ``effects`` around everything that a process of this world writes."""
    places = (
        (world.tier, "create"), (world.tier, "replace"), (world.tier, "delete"), (world.registry, "set_alias"),
        (world.registry, "delete_alias"), (world.registry, "set_tags"), (world.ledger, "open"),
        (world.ledger, "close"), (world, "clean"), (world, "clean_stale"),
    )
    for owner, name in places:
        setattr(owner, name, effects.around(name, getattr(owner, name)))
    try:
        yield effects
    finally:
        for owner, name in places:
            delattr(owner, name)
