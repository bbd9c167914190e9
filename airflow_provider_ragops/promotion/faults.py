"""MLflow's errors become ours, once: who was asked, for what, what came back, what to do next."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from airflow_provider_ragops.exceptions import RagopsError, RegistryError, UnreachableError

_DENIED = frozenset({"UNAUTHENTICATED", "PERMISSION_DENIED", "CUSTOMER_UNAUTHORIZED"})
_LATER = frozenset({"TEMPORARILY_UNAVAILABLE", "REQUEST_LIMIT_EXCEEDED", "DEADLINE_EXCEEDED"})
_ABSENT = frozenset({"RESOURCE_DOES_NOT_EXIST", "NOT_FOUND"})
_DENIED_STATUS = (401, 403)
_LATER_STATUS = (408, 429)
_SERVER_FAULT = 500
_LONGEST_MESSAGE = 500  # characters


@contextmanager
def named_faults(subject: str, where: str) -> Iterator[None]:
    """Translate what MLflow raises inside the block.

    ``subject`` is the object that was asked for, ``where`` names the server (and the connection it came from).

    :raises UnreachableError: no answer in time, or the server says that it can't answer now.
    :raises RegistryError: anything else, credentials included.
    """
    from mlflow.exceptions import MlflowException
    from requests import RequestException

    try:
        yield
    except MlflowException as error:
        raise _translated(error, subject, where) from error
    except RequestException as error:  # the artifact proxy's refusals come out of MLflow's client as they are
        raise _refused(error, subject, where) from error


def is_absent(error: Any) -> bool:
    """Tell whether an MlflowException means "there is no such thing".

    A missing alias answers INVALID_PARAMETER_VALUE, the code that a malformed name gets as well: only the
    message tells the two apart.
    """
    if error.error_code in _ABSENT:
        return True
    return bool(error.error_code == "INVALID_PARAMETER_VALUE" and "not found" in error.message)


def _translated(error: Any, subject: str, where: str) -> RagopsError:
    seen = error.message[:_LONGEST_MESSAGE]
    if error.error_code in _DENIED:
        return _denied(subject, where, seen)
    if error.error_code in _LATER or _came_from_the_network(error):
        return _silent(subject, where, seen)
    return _rejected(subject, where, f"{error.error_code}: {seen}")


def _refused(error: Any, subject: str, where: str) -> RagopsError:
    """Tell by status alone: the text repeats the URL, which may be a signed one."""
    status = error.response.status_code if error.response is not None else None
    seen = f"HTTP {status}" if status else type(error).__name__
    if status in _DENIED_STATUS:
        return _denied(subject, where, seen)
    if status is None or status in _LATER_STATUS or status >= _SERVER_FAULT:
        return _silent(subject, where, seen)
    return _rejected(subject, where, seen)


def _denied(subject: str, where: str, seen: str) -> RegistryError:
    return RegistryError(
        f"{subject} at {where}", expected="credentials with permission for this", seen=seen,
        action="Check user, password and token of the connection, and the user's permissions in MLflow.",
    )  # fmt: skip


def _silent(subject: str, where: str, seen: str) -> UnreachableError:
    return UnreachableError(
        f"{subject} at {where}", expected="an answer in time", seen=seen,
        action="Check that MLflow and its database run, and that this machine reaches the address.",
    )  # fmt: skip


def _rejected(subject: str, where: str, seen: str) -> RegistryError:
    return RegistryError(
        f"{subject} at {where}", expected="MLflow to accept the request", seen=seen,
        action="Look at the object on MLflow's page.",
    )  # fmt: skip


def _came_from_the_network(error: BaseException) -> bool:
    """MLflow wraps connection errors and used-up retries in a plain INTERNAL_ERROR; the context keeps the cause."""
    from requests import RequestException

    return isinstance(error.__context__, RequestException)
