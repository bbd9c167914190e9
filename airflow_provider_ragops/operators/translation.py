"""The one place where this package's errors become Airflow's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_ragops.exceptions import RagopsError


@contextmanager
def translated_errors() -> Iterator[None]:
    """Turn permanent errors into :class:`AirflowFailException`, so that Airflow does not retry them."""
    try:
        yield
    except RagopsError as error:
        if error.permanent:
            raise AirflowFailException(str(error)) from error
        raise
