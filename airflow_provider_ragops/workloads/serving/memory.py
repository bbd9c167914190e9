"""What a serving process does about its memory, once."""

from __future__ import annotations

import gc


def settled() -> None:
    """Take what lives now out of every later garbage collection.

    The loaded libraries, the model and its warm caches stay until the process ends. A full collection would walk all of
    them again and again, while every request waits. Collected first: what is garbage now would be kept for ever.
    """
    gc.collect()
    gc.freeze()
