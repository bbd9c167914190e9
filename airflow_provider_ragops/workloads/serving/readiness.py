"""The last step before ready, and the marker afterwards: a version's own cache, its marker, and a real answer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from airflow_provider_ragops.exceptions import RagopsError, RegistryError, UnreachableError
from airflow_provider_ragops.workloads.serving.caching import Cache, NoCache, Open, without_cache
from airflow_provider_ragops.workloads.serving.checks import check_retriever, metadata_of
from airflow_provider_ragops.workloads.serving.errors import code_of
from airflow_provider_ragops.workloads.serving.questions import Questions, answer_questions

if TYPE_CHECKING:
    from airflow_provider_ragops.workloads.serving.model import LoadedModel
    from airflow_provider_ragops.workloads.serving.service import Service
    from airflow_provider_ragops.workloads.serving.state import ServingState

log = logging.getLogger(__name__)

ATTACH_SECONDS = 60.0
CLAIM_SECONDS = 5.0
MARKER_SECONDS = 10.0
DUMMY = Questions(("What is this about, and who wrote it?",), None)


def attacher(
    service: Service, loop: asyncio.AbstractEventLoop, opened: Open = without_cache
) -> Callable[[LoadedModel], dict[str, str]]:
    """For the loading thread: runs :func:`attach` on the event loop, where the cache lives."""

    def run(loaded: LoadedModel) -> dict[str, str]:
        attached = asyncio.run_coroutine_threadsafe(attach(service, loaded, opened), loop)
        try:
            return attached.result(ATTACH_SECONDS)
        except TimeoutError as error:
            attached.cancel()
            raise UnreachableError(
                loaded.subject, expected=f"its checks to end within {ATTACH_SECONDS:g} s", seen="they go on",
                action="It is tried again. The node or Redis is very slow.",
            ) from error

    return run


async def attach(service: Service, loaded: LoadedModel, opened: Open = without_cache) -> dict[str, str]:
    """Give the version its cache, and check that it answers; returns what agreed.

    :raises RagopsError: what keeps the pod from being ready. A Redis that does not answer does not.
    """
    state = service.state
    checks: dict[str, str] = {}
    if loaded.retriever is not None:
        checks |= await service.workers.run(
            check_retriever, loaded.subject, loaded.retriever, metadata_of(loaded.pyfunc)
        )
    cache = opened(state.settings, loaded)
    try:
        _same_version(state.settings.model_version, loaded, cache)
        checks["marker"] = await claimed(cache)
        if loaded.retriever is not None:
            await answer_questions(DUMMY, loaded, cache, service.workers.run)
    except BaseException:
        await cache.close()
        raise
    state.cache = cache
    return checks


def _same_version(pinned: str, loaded: LoadedModel, cache: Cache) -> None:
    if not pinned == loaded.version == cache.version:
        raise RegistryError(
            f"model {loaded.name}", expected=f"version {pinned}, as MODEL_VERSION says, in model and keys",
            seen=f"loaded version {loaded.version}, keys of version {cache.version}", action="Start the pod again.",
        )


async def claimed(cache: Cache) -> str:
    """``ours``; ``unavailable`` where Redis does not say; ``off`` where there is none.

    :raises RagopsError: the marker is another model's or another training run's.
    """
    if isinstance(cache, NoCache):
        return "off"
    try:
        async with asyncio.timeout(CLAIM_SECONDS):
            await cache.claim()
    except TimeoutError:
        log.warning("the marker was not claimed", extra={"cause": f"no answer within {CLAIM_SECONDS:g} s"})
        return "unavailable"
    except RagopsError as error:
        if error.permanent:
            raise
        log.warning("the marker was not claimed", extra={"cause": str(error)})
        return "unavailable"
    return "ours"


async def watch_marker(
    state: ServingState, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep, seconds: float = MARKER_SECONDS
) -> None:
    """Claim the marker again and again: not ready while it is another's, ready again once it is ours."""
    checks: dict[str, str] = {}
    while True:
        await sleep(seconds)
        if state.cache is None or state.loaded is None:
            continue
        before = state.health
        checks = before.checks or checks
        try:
            marker = await claimed(state.cache)
        except RagopsError as error:
            code = code_of(error).code
            state.becomes("failed", str(error), code)
            if before.ready:
                log.error("no longer ready", extra={"code": code, "cause": str(error)})  # noqa: TRY400
            continue
        except Exception:  # the boundary of the task: the next look may go well
            log.exception("the marker was not looked at")
            continue
        if not before.ready:
            state.serves(state.loaded, "the marker is this model's again", checks | {"marker": marker})
        elif checks.get("marker") != marker:
            state.health = replace(before, checks=checks | {"marker": marker})
