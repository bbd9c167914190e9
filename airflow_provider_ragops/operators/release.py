"""Release one model version to one serving target, or only its pods, or only its alias."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowSkipException

from airflow_provider_ragops.contract import ServingTarget
from airflow_provider_ragops.exceptions import ConfigurationError
from airflow_provider_ragops.operators import rendered
from airflow_provider_ragops.operators.approval import approval_of
from airflow_provider_ragops.operators.run_type import run_type
from airflow_provider_ragops.operators.target import ServingTargetOperator
from airflow_provider_ragops.release import procedure
from airflow_provider_ragops.release.request import ReleaseOutcome, ReleaseRequest
from airflow_provider_ragops.release.session import Session

if TYPE_CHECKING:
    from airflow.sdk import Context


class ModelRolloutOperator(ServingTargetOperator):
    """Only the pods: roll a target to a version and verify them; :class:`ModelPromoteOperator` moves ``@champion``.

    Takes the lock itself. Until the promotion the record says ``verified``, and whoever takes the lock next promotes
    what was verified before anything else.

    :param version: the model version; it must have passed the gate. (templated)
    :param reason: why, for the ledger. (templated)
    :param manual: a person chose the version, in a run that was triggered by hand: a hold, an older partition and
        another champion since the gate's verdict do not stop it. (templated)
    :param rollback: the version takes the place of a bad one, which is quarantined; the target is put on hold.
        Needs ``manual``. (templated)
    :param approval_task_id: task of Airflow's ``ApprovalOperator`` in the same run, whose answer stands in for the
        gate's verdict. Needs ``manual``.
    """

    template_fields: Sequence[str] = (
        *ServingTargetOperator.template_fields, "version", "reason", "manual", "rollback",
    )  # fmt: skip

    def __init__(
        self,
        *,
        version: str,
        reason: str = "the candidate passed the quality gate",
        manual: bool | str = False,
        rollback: bool | str = False,
        approval_task_id: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.version = version
        self.reason = reason
        self.manual = manual
        self.rollback = rollback
        self.approval_task_id = approval_task_id

    verb = "roll out"

    def work(self, context: Context, target: ServingTarget) -> dict[str, Any]:
        if run_type(context) == "backfill":
            raise AirflowSkipException("a backfill trains and evaluates, and never releases")
        request = self._request(context, target)
        return self.procedure(
            context, target, f"{self.verb} {target.model} {request.version}",
            lambda session, token: self.call(session, request, token), request.release_id,
        )

    def call(self, session: Session, request: ReleaseRequest, token: int) -> ReleaseOutcome:
        return procedure.roll_out(session, request, token)

    def _request(self, context: Context, target: ServingTarget) -> ReleaseRequest:
        version = _number(target, self.version)
        manual = rendered.truth("manual", self.manual)
        rollback = rendered.truth("rollback", self.rollback)
        if (manual and run_type(context) != "manual") or (rollback and not manual):
            raise ConfigurationError(
                f"release to {target.slug}", expected="manual only in a run that a person triggered, rollback only "
                "with manual", seen=f"manual={manual}, rollback={rollback} in a {run_type(context)} run",
                action="Use the DAG model_release, or drop the flag.",
            )
        approval = approval_of(context, self.approval_task_id) if manual and self.approval_task_id else ""
        release_id = self.request_id(context, target, version)
        return ReleaseRequest(version, release_id, self.actor(context), str(self.reason), manual, rollback, approval)


class ModelReleaseOperator(ModelRolloutOperator):
    """Roll a serving target to a model version, verify it pod by pod, and move ``@champion`` last.

    All in one task process. A version that does not come up or answers badly is undone and quarantined.
    Parameters are those of :class:`ModelRolloutOperator`.
    """

    verb = "release"

    def call(self, session: Session, request: ReleaseRequest, token: int) -> ReleaseOutcome:
        return procedure.release(session, request, token)


class ModelPromoteOperator(ServingTargetOperator):
    """Only the alias: ``@champion`` moves to a version that the pods were verified to serve.

    Takes the lock itself; refuses, and touches nothing, where no rollout to the version was verified.

    :param version: the model version. (templated)
    """

    template_fields: Sequence[str] = (*ServingTargetOperator.template_fields, "version")

    def __init__(self, *, version: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.version = version

    def work(self, context: Context, target: ServingTarget) -> dict[str, Any]:
        version = _number(target, self.version)
        return self.procedure(
            context, target, f"promote {target.model} {version}",
            lambda session, token: procedure.promote_verified(session, version, token),
        )


def _number(target: ServingTarget, value: Any) -> str:
    version = str(value).strip()
    if not version.isdigit():
        raise ConfigurationError(
            f"release to {target.slug}", expected="a model version (a number)", seen=repr(value),
            action="Pass the gate's candidate, or fill in 'version' in the form.",
        )
    return version
