"""A person's answer to Airflow's ``ApprovalOperator``, as one line for the ledger."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.providers.standard.operators.hitl import ApprovalOperator

from airflow_provider_ragops.exceptions import ConfigurationError

if TYPE_CHECKING:
    from airflow.sdk import Context


def approval_of(context: Context, task_id: str) -> str:
    """Who approved, when, and in which run; ``""`` where nobody was asked (the task was skipped).

    :raises ConfigurationError: when the task left something that is no approval.
    """
    answer: Any = context["ti"].xcom_pull(task_ids=task_id)
    if answer is None:
        return ""
    try:
        chosen, person, when = answer["chosen_options"], answer["responded_by_user"], answer["responded_at"]
    except (TypeError, KeyError) as error:
        raise _no_approval(task_id, answer) from error
    if list(chosen) != [ApprovalOperator.APPROVE]:
        raise _no_approval(task_id, answer)
    name = person.get("name") or person.get("id") if person else "an unknown user"
    ti = context["ti"]
    return f"approved by {name} at {when} ({ti.dag_id}/{ti.run_id}/{task_id})"


def _no_approval(task_id: str, answer: Any) -> ConfigurationError:
    return ConfigurationError(
        f"approval by task {task_id!r}", expected=f"the answer {ApprovalOperator.APPROVE!r} of an ApprovalOperator",
        seen=repr(answer)[:200], action="Name the task of the ApprovalOperator in approval_task_id.",
    )
