# What the training and the serving image share: Python 3.11, torch, MLflow's client, the base encoder's weights, a user
# without rights.
# Context: the repository's root. docker/images.sh passes a base made by debootstrap; any image with Python 3.11 will do.
ARG BASE_IMAGE=python:3.11-slim-bookworm
FROM ${BASE_IMAGE}

# A page of links, as pip knows it; empty means none. It stays in the image's history, so a build with buildah mounts
# pip's settings instead.
ARG PIP_FIND_LINKS=
# HOME: MLflow and torch look for caches there, and at run time only /tmp is written.
ENV PATH=/opt/venv/bin:$PATH HOME=/tmp PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 GIT_PYTHON_REFRESH=quiet \
    MLFLOW_DISABLE_TELEMETRY=true
COPY docker/requirements-base.txt docker/requirements-encoder.txt /opt/
RUN python3 -m venv /opt/venv && pip install --no-cache-dir --requirement /opt/requirements-base.txt \
 && pip install --no-cache-dir --no-deps --requirement /opt/requirements-encoder.txt
RUN python -c "import mlflow.pyfunc, mlflow.pytorch, pandas, pyarrow, safetensors.torch, tokenizers, torch" \
 && groupadd --gid 10001 ragops && useradd --uid 10001 --gid 10001 --home-dir /tmp --no-create-home ragops
# An image built on this one that installs more says USER root first and USER 10001:10001 last.
USER 10001:10001
WORKDIR /tmp
