"""Connection type ``mlflow``: one place that knows how to reach the tracking server, and for how long to wait."""

from __future__ import annotations

import json
import os
from base64 import b64encode
from collections.abc import Callable, Mapping
from datetime import date, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from airflow.sdk import BaseHook

from airflow_provider_ragops.contract import ENV_TRACKING_URI, UTC, ServingTarget
from airflow_provider_ragops.exceptions import (
    ConfigurationError,
    MissingExtraError,
    RagopsError,
    RegistryError,
    UnreachableError,
)
from airflow_provider_ragops.promotion import history
from airflow_provider_ragops.promotion.faults import named_faults
from airflow_provider_ragops.promotion.mlflow_ledger import MlflowLedger
from airflow_provider_ragops.promotion.registry import MlflowRegistry
from airflow_provider_ragops.promotion.runs import MlflowRuns

if TYPE_CHECKING:
    from airflow.sdk import Connection
    from requests import PreparedRequest

_HEALTH_TIMEOUT = 5.0  # seconds
# MLflow's own defaults, 120 s and 7 retries, let one dead server hold a task for half an hour.
_DEFAULTS = {
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",  # a task's log is no terminal
}


class MlflowHook(BaseHook):
    """
    Clients of one MLflow server.

    Connection fields: ``schema`` (http or https, default http), ``host``, ``port``, ``login`` and ``password``.
    Extras, read by name: ``token`` (instead of user and password), ``ca_path`` (file of certificates to trust),
    ``tracking_uri`` (overrides scheme, host and port; may be a database such as ``sqlite:////data/mlflow.db``).

    MLflow reads its credentials and timeouts from the environment: :meth:`client` sets them in this process.
    ``MLFLOW_HTTP_REQUEST_TIMEOUT`` (10 s) and ``MLFLOW_HTTP_REQUEST_MAX_RETRIES`` (2) are left alone where set.

    :param mlflow_conn_id: The Airflow connection.
    """

    conn_name_attr = "mlflow_conn_id"
    default_conn_name = "mlflow_default"
    conn_type = "mlflow"
    hook_name = "MLflow"

    def __init__(self, mlflow_conn_id: str = default_conn_name) -> None:
        super().__init__()
        self.mlflow_conn_id = mlflow_conn_id

    @cached_property
    def tracking_uri(self) -> str:
        """Address of the tracking server.

        :raises ConfigurationError: when the connection has neither a host nor ``tracking_uri``, or another scheme, or
            credentials in the address: MLflow would repeat them in its messages.
        """
        found = self._address()
        if found.startswith("http") and found != _public(found):
            raise self._misconfigured("user and password in their own fields", f"both in {_public(found)}")
        return found

    def _address(self) -> str:
        connection = self._connection
        override = connection.extra_dejson.get("tracking_uri")
        if override:
            return str(override).rstrip("/")
        if not connection.host:
            raise self._misconfigured("a host, or 'tracking_uri' in the extras", "neither")
        scheme, _, host = connection.host.rpartition("://")
        scheme = scheme or connection.schema or "http"
        if scheme not in ("http", "https"):
            raise self._misconfigured("the scheme http or https", repr(scheme))
        return f"{scheme}://{host.rstrip('/')}" + (f":{connection.port}" if connection.port else "")

    def client(self) -> Any:
        """An ``MlflowClient`` whose server answered just now; the same one at every call.

        :raises MissingExtraError: when mlflow is not installed.
        :raises UnreachableError: when the server does not answer within 5 s.
        """
        return self._client

    def get_conn(self) -> Any:
        return self.client()

    def registry(self, *, ask_first: bool = True) -> MlflowRegistry:
        """:param ask_first: False where work must begin, such as an undo, even while the server is down."""
        return MlflowRegistry(self.client() if ask_first else self._unasked_client, self._where)

    def ledger(
        self, clock: Callable[[], datetime] = lambda: datetime.now(UTC), *, ask_first: bool = True
    ) -> MlflowLedger:
        return MlflowLedger(self.client() if ask_first else self._unasked_client, self._where, clock)

    def served_on(self, target: ServingTarget | str, day: date) -> list[history.Served]:
        """
        What served the target on that day, and why: every version that served in the UTC day, oldest first.

        Each has its times and the ledger's entry that brought it: reason, actor, gate report or approval. The answer
        is empty where nothing served, or where the ledger knows nothing of the target.

        :param target: The serving target, or its slug ``namespace/deployment``.
        """
        slug = target.slug if isinstance(target, ServingTarget) else target
        return history.served_on(self.ledger().history(slug), day)

    def find_run(self, experiment: str, tags: Mapping[str, str], status: str | None = None) -> Any | None:
        """The newest run of the experiment with all these tags; any status unless one is asked for."""
        return self._runs.find(experiment, tags, status)

    def start_run(self, experiment: str, name: str, tags: Mapping[str, str]) -> str:
        """Create a run, and its experiment where missing; return the run's id. It stays RUNNING."""
        return self._runs.start(experiment, name, tags)

    def end_run(self, run_id: str, status: str = "FINISHED") -> None:
        self._runs.end(run_id, status)

    def run(self, run_id: str) -> Any:
        """:raises RegistryError: when there is no such run."""
        client = self.client()
        with named_faults(f"run {run_id!r}", self._where):
            return client.get_run(run_id)

    def download(self, run_id: str, artifact_file: str, folder: Path) -> Path | None:
        """Fetch one file of a run into the folder; None where the run has no such file."""
        client = self.client()
        with named_faults(f"artifact {artifact_file!r} of run {run_id!r}", self._where):
            parent = artifact_file.rpartition("/")[0] or None
            if artifact_file not in {each.path for each in client.list_artifacts(run_id, parent)}:
                return None
            return Path(client.download_artifacts(run_id, artifact_file, str(folder)))

    def log_json(self, run_id: str, artifact_file: str, value: Any) -> None:
        """Write a value as a JSON artifact; NaN and infinity are refused, because they are not JSON."""
        text, client = json.dumps(value, indent=2, allow_nan=False), self.client()
        with named_faults(f"artifact {artifact_file!r} of run {run_id!r}", self._where):
            client.log_text(run_id, text, artifact_file)

    def log_file(self, run_id: str, file: Path, folder: str) -> None:
        """Upload a file into a folder of the run's artifacts."""
        client = self.client()
        with named_faults(f"artifact '{folder}/{file.name}' of run {run_id!r}", self._where):
            client.log_artifact(run_id, str(file), folder)

    def experiment_name(self, experiment_id: str) -> str:
        """:raises RegistryError: when there is no such experiment."""
        client = self.client()
        with named_faults(f"experiment {experiment_id!r}", self._where):
            return str(client.get_experiment(experiment_id).name)

    def run_url(self, run: Any) -> str:
        """Address of the run's page; the tracking URI itself where that is no web address."""
        if not self.tracking_uri.startswith("http"):
            return _public(self.tracking_uri)
        return f"{self.tracking_uri}/#/experiments/{run.info.experiment_id}/runs/{run.info.run_id}"

    def test_connection(self) -> tuple[bool, str]:
        try:
            client = self.client()
            with named_faults("experiments", self._where):
                client.search_experiments(max_results=1)
        except RagopsError as error:
            return False, str(error)
        return True, f"MLflow answers at {_public(self.tracking_uri)}"

    @cached_property
    def _connection(self) -> Connection:
        return self.get_connection(self.mlflow_conn_id)

    @property
    def _where(self) -> str:
        return f"{_public(self.tracking_uri)} (connection {self.mlflow_conn_id!r})"

    @cached_property
    def _runs(self) -> MlflowRuns:
        return MlflowRuns(self.client(), self._where)

    @cached_property
    def _client(self) -> Any:
        client = self._unasked_client
        if self.tracking_uri.startswith("http"):
            self._check_reachable()
        return client

    @cached_property
    def _unasked_client(self) -> Any:
        self._set_environment()
        try:
            # The second is what MLflow loads with its first request: plugins such as Feast's, which import for
            # seconds. Here they do it before anybody holds a lock.
            from mlflow import MlflowClient
            from mlflow.tracking.request_header import registry  # noqa: F401
        except ImportError as error:
            raise MissingExtraError.of(f"connection {self.mlflow_conn_id!r}", "mlflow", "mlflow") from error
        with named_faults("MLflow", self._where):
            return MlflowClient(tracking_uri=self.tracking_uri, registry_uri=self.tracking_uri)

    def _set_environment(self) -> None:
        extra = self._connection.extra_dejson
        token, ca_path = extra.get("token"), extra.get("ca_path")
        if ca_path and not Path(ca_path).is_file():
            raise self._misconfigured("an existing file as 'ca_path'", repr(ca_path))
        values = {
            ENV_TRACKING_URI: self.tracking_uri,
            "MLFLOW_TRACKING_TOKEN": token,
            "MLFLOW_TRACKING_USERNAME": None if token else self._connection.login,
            "MLFLOW_TRACKING_PASSWORD": None if token else self._connection.password,
            "MLFLOW_TRACKING_SERVER_CERT_PATH": ca_path,
        }
        for name, value in values.items():
            os.environ.pop(name, None)  # another connection's credentials must not reach this server
            if value:
                os.environ[name] = str(value)
        for name, value in _DEFAULTS.items():
            os.environ.setdefault(name, value)

    def _check_reachable(self) -> None:
        """Ask once, cheaply, before MLflow's client begins to retry."""
        import requests

        try:
            answer = requests.get(
                f"{self.tracking_uri}/health", timeout=_HEALTH_TIMEOUT, auth=self._authorize,
                verify=self._connection.extra_dejson.get("ca_path") or True,
            )  # fmt: skip
        except requests.RequestException as error:
            raise self._unreachable(type(error).__name__) from error
        if answer.status_code in (401, 403):
            raise RegistryError(
                f"MLflow at {self._where}", expected="accepted credentials", seen=f"HTTP {answer.status_code}",
                action="Check user, password and token of the connection.",
            )  # fmt: skip
        if answer.status_code >= 500:
            raise self._unreachable(f"HTTP {answer.status_code}")

    def _authorize(self, request: PreparedRequest) -> PreparedRequest:
        """Send what MLflow's client will send; a function, because a header alone would lose against ``.netrc``."""
        connection = self._connection
        if token := connection.extra_dejson.get("token"):
            request.headers["Authorization"] = f"Bearer {token}"
        elif connection.login and connection.password:
            secret = f"{connection.login}:{connection.password}".encode()
            request.headers["Authorization"] = f"Basic {b64encode(secret).decode()}"
        return request

    def _unreachable(self, seen: str) -> UnreachableError:
        return UnreachableError(
            f"MLflow at {self._where}", expected=f"an answer from /health within {_HEALTH_TIMEOUT:g} s", seen=seen,
            action="Check that the server runs, host and port of the connection, and proxies or policies between.",
        )  # fmt: skip

    def _misconfigured(self, expected: str, seen: str) -> ConfigurationError:
        return ConfigurationError(
            f"connection {self.mlflow_conn_id!r}", expected=expected, seen=seen, action="Correct the connection.",
        )  # fmt: skip


def _public(uri: str) -> str:
    """The address without user and password."""
    parts = urlsplit(uri)
    return uri if "@" not in parts.netloc else parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
