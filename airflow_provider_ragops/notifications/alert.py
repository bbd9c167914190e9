"""The notifier that is always there: it writes to the task's log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow.sdk import BaseNotifier

if TYPE_CHECKING:
    from airflow.sdk import Context

# Serves as alert after a gate (``verdict`` is there) and as failure callback of a task or a DAG (it is not).
MESSAGE = """\
{%- if verdict is defined -%}
Model {{ verdict.model }}: version {{ verdict.candidate }} is not released, the gate says {{ verdict.verdict }}.
{%- for reason in verdict.reasons %}
- {{ reason }}
{%- endfor %}
The champion stays {{ verdict.champion or "none" }}. Report: {{ verdict.report }}
MLflow run: {{ verdict.run_url }}
{%- else -%}
{{ dag.dag_id }}{% if ti is defined %}.{{ ti.task_id }}{% endif %} failed in run {{ run_id }}
{%- if exception is defined %}: {{ exception }}{% endif %}
{%- endif -%}
"""


class AlertNotifier(BaseNotifier):
    """
    Log a message at level WARNING.

    :param message: What to say. The context of the task and, after a gate, ``verdict`` (see
        :class:`~airflow_provider_ragops.operators.gate.QualityGateOperator`) can be used. (templated)
    """

    template_fields = ("message",)

    def __init__(self, *, message: str = MESSAGE) -> None:
        super().__init__()
        self.message = message

    def notify(self, context: Context) -> None:  # noqa: ARG002 - the message was rendered from it before
        self.log.warning("%s", self.message)

    async def async_notify(self, context: Context) -> None:
        self.notify(context)
