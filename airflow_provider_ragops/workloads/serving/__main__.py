"""``python -m airflow_provider_ragops.workloads.serving``: one uvicorn process on port 5000."""

from __future__ import annotations

import os
import sys

from airflow_provider_ragops.contract import SERVING_PORT
from airflow_provider_ragops.exceptions import ConfigurationError
from airflow_provider_ragops.workloads.serving.app import create_app
from airflow_provider_ragops.workloads.serving.cache.settings import CacheSettings
from airflow_provider_ragops.workloads.serving.caching import in_redis
from airflow_provider_ragops.workloads.serving.logs import log_as_json
from airflow_provider_ragops.workloads.serving.memory import settled
from airflow_provider_ragops.workloads.serving.server import serve
from airflow_provider_ragops.workloads.serving.settings import Settings


def main() -> None:
    """Serve until SIGTERM; exits with 1 and the reason where a setting is impossible."""
    try:
        settings = Settings.from_environ(os.environ)
        opened = in_redis(CacheSettings.from_environ(os.environ))
    except ConfigurationError as error:
        sys.exit(f"{error}")
    log_as_json({"model_name": settings.model_name, "model_version": settings.model_version})
    app = create_app(settings, opened=opened, settle=settled)
    serve(app, SERVING_PORT, settings.drain_seconds, settings.linger_seconds)


if __name__ == "__main__":
    main()
