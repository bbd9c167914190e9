from __future__ import annotations

from typing import Any

import pytest
from airflow.sdk import BaseNotifier

from airflow_provider_ragops.exceptions import ConfigurationError
from airflow_provider_ragops.notifications.alert import AlertNotifier
from airflow_provider_ragops.notifications.loading import load


def test_a_path_becomes_a_notifier() -> None:
    """A notifier of an installed provider is made from its path and arguments."""
    found = load({"path": "airflow_provider_ragops.notifications.alert.AlertNotifier", "arguments": {"message": "m"}})

    assert isinstance(found, AlertNotifier)
    assert found.message == "m"
    assert load(found) is found


def test_airflows_own_mail_notifier_takes_our_templates() -> None:
    """The extra 'smtp': Airflow's notifier is made and renders a verdict."""
    pytest.importorskip("airflow.providers.smtp")
    found: Any = load(
        {
            "path": "airflow.providers.smtp.notifications.smtp.SmtpNotifier",
            "arguments": {"to": "team@example.com", "subject": "{{ verdict.model }}", "html_content": "x"},
        }
    )
    assert isinstance(found, BaseNotifier)

    found.render_template_fields({"verdict": {"model": "Churn"}})
    assert found.subject == "Churn"


@pytest.mark.parametrize(
    "notifier",
    [
        {"path": "nowhere.at.all.Notifier"},
        {"path": "airflow_provider_ragops.notifications.alert.Missing"},
        {"path": "airflow_provider_ragops.notifications.alert.AlertNotifier", "arguments": {"wrong": 1}},
        {"path": "pathlib.PurePath"},
        {},
    ],
)
def test_a_wrong_path_or_argument_is_named(notifier: dict[str, Any]) -> None:
    """Anything that makes no notifier is refused with its path."""
    with pytest.raises(ConfigurationError, match=f"notifier {notifier.get('path')}"):
        load(notifier)
