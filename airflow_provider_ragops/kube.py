"""The one place that talks to the Kubernetes API: a deadline on every call, no blind retries, errors named once.

Objects are plain JSON dictionaries. The generated client's typed models drop fields that they do not know, so a
read-modify-replace through them would delete what a newer API server had stored; raw JSON keeps everything.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from airflow_provider_ragops.exceptions import ClusterError, ConflictError, UnreachableError

Json = dict[str, Any]

_LATER = frozenset({429, 500, 502, 503, 504})


class Kube:
    """Calls on one cluster.

    :param api_client: a ``kubernetes.client.ApiClient``; its urllib3 retries are switched off here, because a
        replace that is sent again after a lost reply answers 409 to our own write.
    :param timeout: seconds for one request; keep it below the lock's renewal deadline.
    """

    def __init__(self, api_client: Any, timeout: float = 10.0) -> None:
        self._client = without_retries(api_client)
        self._timeout = timeout
        #: Requests sent so far, by verb; a release reports them.
        self.calls: Counter[str] = Counter()

    @property
    def timeout(self) -> float:
        return self._timeout

    @property
    def address(self) -> str:
        return str(self._client.configuration.host)

    def get(self, path: str) -> Json | None:
        """Read one object; ``None`` where it does not exist. Reads are consistent (no resourceVersion)."""
        found = self._call("GET", path, missing_ok=True)
        return None if found is None else self._parsed(path, found)

    def list(self, path: str, selector: str, fields: str = "") -> list[Json]:
        """All objects of a collection that match a label selector and a field selector."""
        query = {"labelSelector": selector} | ({"fieldSelector": fields} if fields else {})
        found = self._call("GET", path, query=query)
        return list(self._parsed(path, found).get("items") or [])

    def create(self, path: str, body: Json) -> Json:
        """:raises ConflictError: when an object of this name exists already."""
        return self._parsed(path, self._call("POST", path, body=body))

    def replace(self, path: str, body: Json) -> Json:
        """Write a whole object by compare-and-swap on its ``metadata.resourceVersion``.

        :raises ConflictError: when the object changed, or went, since ``body`` was read.
        """
        if not body.get("metadata", {}).get("resourceVersion"):
            raise ValueError(f"replace {path}: the body carries no resourceVersion; read the object first")
        return self._parsed(path, self._call("PUT", path, body=body))

    def delete(self, path: str, uid: str) -> None:
        """Delete the very object of this uid; one that is gone already, or was made anew, is left alone."""
        body = {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": uid}}
        try:
            self._call("DELETE", path, body=body, missing_ok=True)
        except ConflictError:
            return  # another object by now: not ours to delete

    def watch(self, path: str, name: str, resource_version: str, seconds: float) -> Generator[Json, None, None]:
        """Yield the watch events of one object of a collection, for at most ``seconds`` (rounded up).

        Ends early when the stream is cut, and at once where ``resource_version`` is too old (410 Gone): the caller
        reads again and sees what it missed. A connection that went silent is given up a second later.

        :raises UnreachableError: when the watch can't be started; ClusterError where it is refused.
        """
        query = {
            "watch": "true", "fieldSelector": f"metadata.name={name}", "resourceVersion": resource_version,
            "timeoutSeconds": str(whole := max(1, math.ceil(seconds))),
        }
        for line in self._lines(path, query, whole + 1.0):
            event = self._parsed(path, line)
            if event.get("type") == "ERROR":
                return
            yield event

    def text(self, path: str, query: Mapping[str, str] | None = None) -> str:
        return self._call("GET", path, query=query) or ""

    def proxy(self, path: str, method: str = "GET", body: Json | None = None,
              query: Mapping[str, str] | None = None, timeout: float | None = None) -> tuple[int, str]:
        """Ask a pod or Service through the API server; returns its status and body, whatever the status is."""
        try:
            return 200, self._send(method, path, body, query, timeout)
        except _api_exception() as error:
            return int(error.status or 0), _text(error.body)

    def _call(self, method: str, path: str, *, body: Json | None = None,
              query: Mapping[str, str] | None = None, missing_ok: bool = False) -> str | None:
        try:
            return self._send(method, path, body, query)
        except _api_exception() as error:
            if error.status == 404 and missing_ok:
                return None
            raise self._named(method, path, error) from error

    def _send(self, method: str, path: str, body: Json | None, query: Mapping[str, str] | None,
              timeout: float | None = None) -> str:
        """The body of a good answer; the client raises for any other."""
        with self._answered(method, path, timeout or self._timeout):
            return _text(self._open(method, path, body, query, timeout).data)  # read here: the body may stall, too

    def _lines(self, path: str, query: Mapping[str, str], timeout: float) -> Iterator[str]:
        """The lines of a streamed answer; a stream that is cut, or silent for ``timeout``, simply ends."""
        from urllib3.exceptions import HTTPError

        try:
            with self._answered("GET", path, timeout):
                response = self._open("GET", path, None, query, (self._timeout, timeout))
        except _api_exception() as error:
            if error.status == 410:
                return
            raise self._named("WATCH", path, error) from error
        rest = b""
        try:
            for chunk in response.stream():
                *lines, rest = (rest + chunk).split(b"\n")
                yield from (_text(line) for line in lines if line)
        except (HTTPError, OSError):
            return
        finally:
            response.close()

    def _open(self, method: str, path: str, body: Json | None, query: Mapping[str, str] | None,
              timeout: float | tuple[float, float] | None) -> Any:
        self.calls[method] += 1
        headers = {"Accept": "application/json, */*"} | ({"Content-Type": "application/json"} if body else {})
        return self._client.call_api(
            path, method, query_params=list((query or {}).items()), header_params=headers, body=body,
            auth_settings=["BearerToken"], _preload_content=False, _return_http_data_only=True,
            _request_timeout=timeout or self._timeout,
        )

    @contextmanager
    def _answered(self, method: str, path: str, timeout: float) -> Iterator[None]:
        from urllib3.exceptions import HTTPError

        try:
            yield
        # The generated client answers a failed TLS handshake or an undecodable body with the last two.
        except (HTTPError, OSError, AttributeError, UnicodeDecodeError) as error:
            seen = f"{type(error).__name__}: {str(error)[:200]}"
            raise self._unreachable(f"an answer to {method} {path} within {timeout:g} s", seen) from error

    def _unreachable(self, expected: str, seen: str) -> UnreachableError:
        return UnreachableError(
            f"Kubernetes API {self.address}", expected=expected,
            seen=seen, action="Check the address in the Kubernetes connection and that the API server is up.",
        )

    def _parsed(self, path: str, text: str | None) -> Json:
        try:
            return dict(json.loads(text or "{}"))
        except (ValueError, TypeError) as error:
            raise self._unreachable(f"JSON for {path}", repr((text or "")[:120])) from error

    def _named(self, method: str, path: str, error: Any) -> Exception:
        status, reason = int(error.status or 0), _reason(error)
        subject, seen = f"Kubernetes {method} {path}", f"{status} {reason}"
        if status == 409 or (status == 404 and method == "PUT"):
            return ConflictError(subject, expected="the object as we read it", seen=seen, action="Read it again.")
        if status in _LATER:
            later = UnreachableError(f"Kubernetes API {self.address}", expected=f"{method} {path} to be served",
                                     seen=seen, action="It may pass: try again.")
            later.retry_after = _retry_after(error)
            return later
        action = {401: "Check the credentials of the Kubernetes connection.",
                  403: "Grant this verb to the connection's account (see docker/chart, Role ragops-releaser).",
                  404: "Check the namespace and the name."}.get(status, "Read the reason; the object was refused.")
        if "is being terminated" in reason:
            action = "The namespace is being deleted: wait until it is gone, then create it and the target anew."
        return ClusterError(subject, expected="success", seen=seen, action=action)


def without_retries(api_client: Any) -> Any:
    """A client of the same cluster and credentials that sends every request exactly once."""
    import copy

    from kubernetes.client import ApiClient

    configuration = copy.copy(api_client.configuration)
    configuration.retries = False
    fresh = ApiClient(configuration)
    fresh.default_headers.update(api_client.default_headers)
    return fresh


def _api_exception() -> Any:
    from kubernetes.client.exceptions import ApiException

    return ApiException


def _text(data: bytes | str | None) -> str:
    return data.decode("utf-8", "replace") if isinstance(data, bytes) else (data or "")


def _retry_after(error: Any) -> float:
    """Seconds that the server asks to be left alone; 0 where it says nothing. The API server sends no dates."""
    text = str((error.headers or {}).get("Retry-After", ""))
    return float(text) if text.isdecimal() else 0.0


def _reason(error: Any) -> str:
    """The API server's own message, cut short; its body is JSON, a proxy's in between may be anything."""
    body = _text(error.body)
    try:
        return str(json.loads(body).get("message", error.reason))[:300]
    except (ValueError, AttributeError):
        return f"{error.reason} {body[:200]}"
