"""The background loop that makes a pod ready, or says why it is not."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from airflow_provider_ragops.exceptions import CacheKeyCollisionError, RagopsError
from airflow_provider_ragops.workloads.serving.errors import CODES

if TYPE_CHECKING:
    from airflow_provider_ragops.workloads.serving.model import LoadedModel
    from airflow_provider_ragops.workloads.serving.settings import Settings
    from airflow_provider_ragops.workloads.serving.state import ServingState

log = logging.getLogger(__name__)

NO_VERSION = "MODEL_VERSION is not set: release a version to this serving target"


def backoff(first: float = 1.0, longest: float = 30.0) -> Iterator[float]:
    """Seconds to wait between tries: doubling up to ``longest``, without end (the rollout has the deadline)."""
    delay = first
    while True:
        yield delay
        delay = min(delay * 2, longest)


def make_ready(
    state: ServingState,
    load: Callable[[Settings], LoadedModel],
    wait: Callable[[float], bool],
    attach: Callable[[LoadedModel], dict[str, str]] = lambda _: {},
    settle: Callable[[], None] = lambda: None,
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Load until it worked, until an error that waiting can't cure, or until ``wait`` says to stop.

    :param attach: the loaded version's cache and checks; returns what agreed.
    :param settle: the last step before ready, once.

    Never raises: it is a thread's body, and a thread that died silently would leave "loading" for ever.
    """
    if not state.settings.model_version:
        state.becomes("no version assigned", NO_VERSION)
        log.warning(NO_VERSION)
        return
    started = clock()
    for delay in backoff():
        try:
            loaded = load(state.settings)
            checks = attach(loaded)
        except Exception as error:  # the boundary of the thread
            if not _again(state, error, delay) or wait(delay):
                return
            continue
        settle()
        seconds = clock() - started
        state.serves(loaded, f"loaded in {seconds:.1f} s", checks)
        log.info("ready", extra={"seconds": round(seconds, 2)})
        return


def _again(state: ServingState, error: Exception, delay: float) -> bool:
    if isinstance(error, RagopsError) and not error.permanent:
        state.becomes("loading", f"{error} Next try in {delay:.0f} s.")
        log.warning("loading failed, trying again", exc_info=error, extra={"delay": delay})
        return True
    text = str(error) if isinstance(error, RagopsError) else f"{type(error).__name__}: {error}"
    state.becomes("failed", text, CODES[type(error)].code if type(error) in CODES else "")
    log.error("loading failed", exc_info=error, extra={"code": state.health.code})
    # Its keys in Redis may be cleaned up, as docs/on-call.md says: then it becomes ready by itself.
    return isinstance(error, CacheKeyCollisionError)
