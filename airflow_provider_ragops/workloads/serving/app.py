"""The application factory: endpoints around one service, and what runs beside them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from threading import Thread
from typing import TYPE_CHECKING

from starlette.routing import Route

from airflow_provider_ragops.workloads.serving import endpoints, model
from airflow_provider_ragops.workloads.serving.caching import Open, without_cache
from airflow_provider_ragops.workloads.serving.invocations import Closing, Invocations
from airflow_provider_ragops.workloads.serving.loading import make_ready
from airflow_provider_ragops.workloads.serving.logs import keep_data_out
from airflow_provider_ragops.workloads.serving.metrics import Metrics
from airflow_provider_ragops.workloads.serving.openapi import describe
from airflow_provider_ragops.workloads.serving.readiness import attacher, watch_marker
from airflow_provider_ragops.workloads.serving.service import Service
from airflow_provider_ragops.workloads.serving.state import ServingState
from airflow_provider_ragops.workloads.serving.workers import Workers

if TYPE_CHECKING:
    from fastapi import FastAPI

    from airflow_provider_ragops.workloads.serving.settings import Settings

# Calls that one request may have in the workers' queue at once: the questions of a RAG request.
CALLS_OF_A_REQUEST = 4


def create_app(
    settings: Settings,
    load: Callable[[Settings], model.LoadedModel] = model.load,
    wait: Callable[[float], bool] | None = None,
    opened: Open = without_cache,
    settle: Callable[[], None] = lambda: None,
) -> FastAPI:
    """Build the app; loading starts when it starts. ``wait(seconds)`` between tries returns True to give up.

    :param opened: gives a loaded version its cache.
    :param settle: called once, when the version is loaded and warm and not ready yet: :func:`memory.settled` in a
        process that serves and does nothing else.

    Everything that belongs to the version lives on ``app.state``: ``serving`` (the state) and ``service``.
    """
    from fastapi import FastAPI

    keep_data_out()
    state = ServingState.of(settings)
    limits = settings.limits
    workers = Workers(limits.concurrency, limits.queue * CALLS_OF_A_REQUEST)
    service = Service(state, Metrics(), workers)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        attach = attacher(service, asyncio.get_running_loop(), opened)
        arguments = (state, load, wait or state.stopping.wait, attach, settle)
        # daemon: a download that hangs must not outlive the drain
        Thread(target=make_ready, args=arguments, name="loading", daemon=True).start()
        marker = asyncio.create_task(watch_marker(state))
        yield
        state.stopping.set()
        marker.cancel()
        with suppress(asyncio.CancelledError):
            await marker
        if state.cache is not None:
            await state.cache.close()
        workers.close()

    app = FastAPI(title="mlflow-serve", lifespan=lifespan, docs_url=None, redoc_url=None)
    app.state.serving, app.state.service = state, service
    app.router.routes.append(Route("/invocations", Invocations(service), methods=["POST"]))
    endpoints.add_to(app)
    app.add_middleware(Closing, service=service)
    describe(app)
    return app
