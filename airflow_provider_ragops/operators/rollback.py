"""Back to the last good version, and the hold that keeps automatic releases away."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow_provider_ragops.contract import ServingTarget
from airflow_provider_ragops.operators import rendered
from airflow_provider_ragops.operators.target import ServingTargetOperator
from airflow_provider_ragops.release import procedure
from airflow_provider_ragops.release.request import ReleaseRequest

if TYPE_CHECKING:
    from airflow.sdk import Context


class ModelRollbackOperator(ServingTargetOperator):
    """Take a serving target back to its recorded last good version, as one unit, and put it on hold.

    The version that served is quarantined. The pods come back even while MLflow is down; alias, quarantine and ledger
    follow with the next try. To go back to another version than the last good one, release that version
    (:class:`~airflow_provider_ragops.operators.release.ModelReleaseOperator` with ``rollback``).

    :param reason: why; it becomes the hold's reason and the quarantine's. (templated)
    """

    template_fields: Sequence[str] = (*ServingTargetOperator.template_fields, "reason")

    def __init__(self, *, reason: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.reason = reason

    def work(self, context: Context, target: ServingTarget) -> dict[str, Any]:
        reason = rendered.required("reason", self.reason)
        request = ReleaseRequest(
            "", self.request_id(context, target), self.actor(context), reason, manual=True, rollback=True,
        )
        return self.procedure(
            context, target, f"roll back {target.model}",
            lambda session, token: procedure.roll_back(session, request, token), request.release_id,
        )


class ModelHoldOperator(ServingTargetOperator):
    """Stop automatic releases of a serving target, or let them go on.

    :param reason: why; shown by every release that the hold refuses. Empty lifts the hold. (templated)
    """

    template_fields: Sequence[str] = (*ServingTargetOperator.template_fields, "reason")

    def __init__(self, *, reason: str = "", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.reason = reason

    def work(self, context: Context, target: ServingTarget) -> dict[str, Any]:
        reason = rendered.optional(self.reason) or ""
        return self.procedure(
            context, target, f"hold {target.model}" if reason else f"lift the hold of {target.model}",
            lambda session, token: procedure.hold(session, reason, token),
        )
