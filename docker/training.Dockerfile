# Trains and evaluates: mlflow, torch and pandas come with the base image, nothing is added. Context: the repository's root.
# No entrypoint: the operator names the workload. Runs as any user with a read-only root file system; only /tmp is written.
ARG BASE_IMAGE
FROM ${BASE_IMAGE}

USER root
WORKDIR /app
COPY airflow_provider_ragops/__init__.py airflow_provider_ragops/contract.py airflow_provider_ragops/exceptions.py \
     airflow_provider_ragops/
COPY airflow_provider_ragops/workloads/ airflow_provider_ragops/workloads/
# Compiled here, because the running pod can't write; and Airflow must not be in an image that only needs contract.py.
RUN python -m compileall -q airflow_provider_ragops \
 && python -m airflow_provider_ragops.workloads.training --help > /dev/null \
 && python -c "import airflow_provider_ragops.workloads.training.fit, airflow_provider_ragops.workloads.training.network" \
 && ! python -c "import airflow" 2> /dev/null

# MLflow's own defaults, 120 s and 7 retries, let one dead server hold a GPU for half an hour.
ENV PYTHONPATH=/app MLFLOW_HTTP_REQUEST_TIMEOUT=30 MLFLOW_HTTP_REQUEST_MAX_RETRIES=3 \
    MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR=false
USER 10001:10001
