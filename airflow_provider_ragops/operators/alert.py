"""Tells people what the gate decided, and lets the run end well: a rejected candidate is no failed schedule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from airflow.sdk import BaseNotifier, BaseOperator

from airflow_provider_ragops.exceptions import ConfigurationError, RagopsError, UnreachableError
from airflow_provider_ragops.notifications.alert import AlertNotifier
from airflow_provider_ragops.notifications.loading import load
from airflow_provider_ragops.operators.gate import XCOM_VERDICT
from airflow_provider_ragops.operators.translation import translated_errors

if TYPE_CHECKING:
    from airflow.sdk import Context


class AlertOperator(BaseOperator):
    """
    Call every notifier with the gate's verdict; the task fails where one of them did, after all were called.

    Each notifier can use ``verdict`` in its templates: model, verdict, reasons, candidate, champion, metrics,
    report, run_url. A retry calls all notifiers again: an alert twice is better than none.

    :param notifiers: Notifiers, or ``{"path": ..., "arguments": ...}`` to import them only when they are needed
        (see :mod:`airflow_provider_ragops.notifications.loading`). Default: the task's log.
    :param gate_task_id: The gate whose verdict is told.
    """

    def __init__(
        self,
        *,
        notifiers: Sequence[BaseNotifier | Mapping[str, Any]] | None = None,
        gate_task_id: str = "gate",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.notifiers = notifiers
        self.gate_task_id = gate_task_id

    def execute(self, context: Context) -> None:
        with translated_errors():
            told = cast("Context", {**context, "verdict": self._verdict(context)})
            # An empty list would be an alert that nobody gets.
            failures = [self._failure(each, told) for each in self.notifiers or [AlertNotifier()]]
            if found := [each for each in failures if each]:
                raise _combined(found)

    def _verdict(self, context: Context) -> Mapping[str, Any]:
        found = context["ti"].xcom_pull(task_ids=self.gate_task_id, key=XCOM_VERDICT)
        if not found:
            raise ConfigurationError(
                f"alert {self.task_id!r}", expected=f"a verdict of task {self.gate_task_id!r}", seen="none",
                action="Set gate_task_id to the gate's task id, and let the alert follow the gate.",
            )  # fmt: skip
        return cast("Mapping[str, Any]", found)

    def _failure(self, notifier: BaseNotifier | Mapping[str, Any], context: Context) -> Exception | None:
        """Notify; return what went wrong. Calling a notifier itself would log the error and go on."""
        try:
            loaded = load(notifier)
            loaded.render_template_fields(context)
            loaded.notify(context)
        except Exception as error:
            # Whatever a notifier of another provider raises, the others have their turn.
            self.log.exception("Notifier %s failed", notifier)
            return error
        return None


def _combined(failures: list[Exception]) -> RagopsError:
    """One error for all; permanent only where no failure may pass by itself."""
    permanent = all(isinstance(each, RagopsError) and each.permanent for each in failures)
    kind = ConfigurationError if permanent else UnreachableError
    return kind(
        f"{len(failures)} notifier(s)", expected="every notifier to take the alert",
        seen="; ".join(f"{type(each).__name__}: {each}"[:300] for each in failures),
        action="Look at the log above for each; the other notifiers were called.",
    )  # fmt: skip
