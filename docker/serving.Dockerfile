# Serves one pinned version of an MLflow model. Context: the repository's root.
# Runs with a read-only root file system: only /tmp and the model cache are written.
ARG BASE_IMAGE
FROM ${BASE_IMAGE}

USER root
WORKDIR /app
COPY docker/requirements-serving.txt ./
RUN pip install --no-cache-dir -r requirements-serving.txt && rm requirements-serving.txt

COPY airflow_provider_ragops/__init__.py airflow_provider_ragops/contract.py airflow_provider_ragops/exceptions.py \
     airflow_provider_ragops/
COPY airflow_provider_ragops/workloads/ airflow_provider_ragops/workloads/
# Compiled here, because the running pod can't write; and Airflow must not be in an image that only needs contract.py.
RUN python -m compileall -q airflow_provider_ragops \
 && python -c "import airflow_provider_ragops.workloads.serving.app" \
 && ! python -c "import airflow" 2> /dev/null

# One thread per prediction: predictions run side by side. MLflow's own log format would break the JSON lines.
ENV PYTHONPATH=/app OMP_NUM_THREADS=1 MLFLOW_CONFIGURE_LOGGING=false
USER 10001:10001
EXPOSE 5000
# Exec form: SIGTERM reaches the server, which then finishes the requests in flight.
ENTRYPOINT ["python", "-m", "airflow_provider_ragops.workloads.serving"]
