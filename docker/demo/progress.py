"""Say what is going on and how long it took."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager


class Progress:
    """``seconds`` holds how long each step took, in order."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._began = time.monotonic()

    @contextmanager
    def step(self, name: str, about: str) -> Iterator[None]:
        began = time.monotonic()
        self.say(f"{name}: {about} ...")
        yield
        self.seconds[name] = round(time.monotonic() - began, 1)
        self.say(f"{name}: done in {self.seconds[name]:.0f} s")

    def say(self, text: str) -> None:
        minutes, seconds = divmod(int(time.monotonic() - self._began), 60)
        print(f"[{minutes:2d}:{seconds:02d}] {text}", flush=True)
