"""Notifiers by import path, so that a DAG file need not import a provider that may not be installed.

.. code-block:: python

    {"path": "airflow.providers.slack.notifications.slack_webhook.SlackWebhookNotifier",
     "arguments": {"slack_webhook_conn_id": "slack", "text": "{{ verdict.model }}: {{ verdict.verdict }}"}}
    {"path": "airflow.providers.pagerduty.notifications.pagerduty.PagerdutyNotifier",
     "arguments": {"pagerduty_events_conn_id": "pagerduty", "summary": "{{ verdict.verdict }}", ...}}
    {"path": "airflow.providers.smtp.notifications.smtp.SmtpNotifier",
     "arguments": {"to": "team@example.com", "subject": "{{ verdict.model }}: {{ verdict.verdict }}"}}

The extras ``slack``, ``pagerduty`` and ``smtp`` of this package install those providers.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from airflow.sdk import BaseNotifier

from airflow_provider_ragops.exceptions import ConfigurationError, MissingExtraError

_EXTRAS = ("slack", "pagerduty", "smtp")


def load(notifier: BaseNotifier | Mapping[str, Any]) -> BaseNotifier:
    """Return the notifier, made from ``path`` and ``arguments`` where it is a mapping.

    :raises MissingExtraError: when its provider is not installed and an extra of this package installs it.
    :raises ConfigurationError: when it can't be imported or made for any other reason.
    """
    if isinstance(notifier, BaseNotifier):
        return notifier
    path = str(notifier.get("path"))
    module, _, name = path.rpartition(".")
    try:
        made = getattr(import_module(module), name)(**notifier.get("arguments", {}))
    except ImportError as error:
        if extra := next((each for each in _EXTRAS if path.startswith(f"airflow.providers.{each}.")), None):
            raise MissingExtraError.of(f"notifier {path}", f"apache-airflow-providers-{extra}", extra) from error
        raise _error(path, str(error)) from error
    except (AttributeError, TypeError, ValueError) as error:
        raise _error(path, str(error)) from error
    if not isinstance(made, BaseNotifier):
        raise _error(path, type(made).__name__)
    return made


def _error(path: str, seen: str) -> ConfigurationError:
    return ConfigurationError(
        f"notifier {path}", expected="the import path of a notifier and arguments that it takes", seen=seen,
        action="Correct the notifier in the DAG.",
    )  # fmt: skip
