"""Our side of the serving benchmark: ``python -m tests.benchmarks.ours MODEL_FOLDER PORT log|quiet``."""

from __future__ import annotations

import sys
from pathlib import Path

from airflow_provider_ragops.workloads.serving.app import create_app
from airflow_provider_ragops.workloads.serving.logs import log_as_json
from airflow_provider_ragops.workloads.serving.memory import settled
from airflow_provider_ragops.workloads.serving.model import LoadedModel
from airflow_provider_ragops.workloads.serving.server import serve
from airflow_provider_ragops.workloads.serving.settings import Settings


def load(settings: Settings) -> LoadedModel:
    from mlflow import pyfunc

    return LoadedModel.of(settings.model_name, settings.model_version, pyfunc.load_model(str(settings.cache_dir)))


if __name__ == "__main__":
    log_as_json({"model_name": "M", "model_version": "1"})
    chosen = Settings("M", "1", "http://unused", Path(sys.argv[1]), request_log=sys.argv[3] == "log")
    serve(create_app(chosen, load, settle=settled), int(sys.argv[2]), 5, 1)
