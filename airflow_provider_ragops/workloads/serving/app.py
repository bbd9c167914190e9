"""The HTTP face: who am I, am I ready, predict, metrics."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from threading import Thread
from typing import TYPE_CHECKING

from anyio import CapacityLimiter, to_thread
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from airflow_provider_ragops.workloads.serving import model
from airflow_provider_ragops.workloads.serving.loading import make_ready
from airflow_provider_ragops.workloads.serving.metrics import Metrics
from airflow_provider_ragops.workloads.serving.state import Health, ServingState

if TYPE_CHECKING:
    from fastapi import FastAPI

    from airflow_provider_ragops.workloads.serving.settings import Settings

log = logging.getLogger(__name__)


def create_app(
    settings: Settings,
    load: Callable[[Settings], model.LoadedModel] = model.load,
    wait: Callable[[float], bool] | None = None,
) -> FastAPI:
    """Build the app; loading starts when it starts. ``wait(seconds)`` between tries returns True to give up.

    Everything that belongs to the version lives on ``app.state``: ``serving``, ``metrics``, ``limiter``.
    """
    from fastapi import FastAPI

    state = ServingState.of(settings)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        app.state.limiter = CapacityLimiter(settings.concurrency)  # needs the running loop
        # daemon: a download that hangs must not outlive the drain
        Thread(target=make_ready, args=(state, load, wait or state.stopping.wait), name="loading", daemon=True).start()
        yield
        state.stopping.set()

    app = FastAPI(title="mlflow-serve", lifespan=lifespan, openapi_url=None)
    app.state.serving = state
    app.state.metrics = Metrics()
    app.add_api_route("/ping", ping, methods=["GET"])
    app.add_api_route("/health", health, methods=["GET"])
    app.add_api_route("/metrics", metrics, methods=["GET"])
    app.add_api_route("/invocations", invocations, methods=["POST"])
    return app


async def ping() -> Response:
    """Alive: says nothing about the model."""
    return JSONResponse({"status": "alive"})


async def health(request: Request, model_name: str | None = None, model_version: str | None = None) -> Response:
    """200 only when ready, and with exactly the version (and model) asked for, if one is."""
    seen: Health = request.app.state.serving.health.asked_for(model_name, model_version)
    return JSONResponse(seen.as_dict(), 200 if seen.ready else 503)


async def metrics(request: Request) -> Response:
    body = request.app.state.metrics.render(request.app.state.serving.health)
    return Response(body, media_type="text/plain; version=0.0.4; charset=utf-8")


async def invocations(request: Request, model_name: str | None = None, model_version: str | None = None) -> Response:
    """Predict, in MLflow's formats. 503 while not ready, 409 where the caller asked for another version."""
    body = await request.body()
    started = time.perf_counter()
    state: ServingState = request.app.state.serving
    seen = state.health.asked_for(model_name, model_version)
    if refused := _refusal(seen):
        answer = refused
    else:
        assert state.loaded is not None  # noqa: S101  ready implies loaded
        content_type = request.headers.get("content-type", "")
        answer = await to_thread.run_sync(
            state.loaded.answer, body, content_type, limiter=request.app.state.limiter
        )
    seconds = time.perf_counter() - started
    request.app.state.metrics.answered(seen, answer.status, seconds)
    log.info("answered", extra={"status": answer.status, "seconds": round(seconds, 5), "bytes": len(body)})
    return Response(answer.body, answer.status, media_type=answer.media_type)


def _refusal(seen: Health) -> model.Answer | None:
    if seen.ready:
        return None
    code, status = ("OTHER_VERSION", 409) if seen.status == "other version" else ("NOT_READY", 503)
    message = f"{seen.status}: {seen.detail}"
    return model.error_answer(code, message, status, model_name=seen.model_name, model_version=seen.model_version)
