"""What a pod says about itself: alive, ready with which version, which software, metrics."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from airflow_provider_ragops import __version__, contract
from airflow_provider_ragops.workloads.serving.checks import metadata_of
from airflow_provider_ragops.workloads.serving.state import Health

if TYPE_CHECKING:
    from fastapi import FastAPI

    from airflow_provider_ragops.workloads.serving.service import Service

# A prediction that runs this many times as long as a request may is taken for one that never ends.
STUCK_AFTER = 6


def add_to(app: FastAPI) -> None:
    for path, endpoint in (
        ("/ping", live), ("/health/live", live), ("/health", health), ("/version", versions), ("/metrics", metrics)
    ):
        app.add_api_route(path, endpoint, methods=["GET"])


async def live(request: Request) -> Response:
    """200 unless every worker hangs, which only a restart cures; says nothing about the model."""
    if _stuck(request.app.state.service):
        return JSONResponse({"status": "stuck"}, 503)
    return JSONResponse({"status": "alive"})


async def health(request: Request, model_name: str | None = None, model_version: str | None = None) -> Response:
    """200 only when ready, and with exactly the version (and model) asked for, if one is."""
    service: Service = request.app.state.service
    seen: Health = service.state.told().asked_for(model_name, model_version)
    if seen.ready and _stuck(service):
        seen = Health("stuck", seen.model_name, seen.model_version, "every worker hangs in one prediction")
    return JSONResponse(seen.as_dict(), 200 if seen.ready else 503)


async def versions(request: Request) -> Response:
    """The model's version, and the software that serves it."""
    seen: Health = request.app.state.service.state.health
    return JSONResponse({
        "model_name": seen.model_name, "model_version": seen.model_version, "runtime": __version__,
        "python": platform.python_version(), "git_commit": os.environ.get(contract.ENV_GIT_COMMIT, ""),
        "image": os.environ.get(contract.ENV_IMAGE, ""),
        **{name: _installed(name) for name in ("mlflow", "fastapi", "torch")},
    })


async def metrics(request: Request) -> Response:
    service: Service = request.app.state.service
    loaded, info = service.state.loaded, {}
    if loaded is not None and (pyfunc := getattr(loaded, "pyfunc", None)) is not None:
        info = {name.replace(".", "_"): str(value) for name, value in metadata_of(pyfunc).items()
                if isinstance(value, (str, int, float))}
        info["run_id"] = loaded.run_id
    body = service.metrics.render(service.state.health, info)
    return Response(body, media_type="text/plain; version=0.0.4; charset=utf-8")


def _stuck(service: Service) -> bool:
    return service.workers.stuck(STUCK_AFTER * service.state.settings.limits.request_seconds)


def _installed(name: str) -> str:
    for distribution in (name, f"{name}-skinny"):
        try:
            return version(distribution)
        except PackageNotFoundError:
            continue
    return ""
