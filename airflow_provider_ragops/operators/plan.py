"""The first step of a release that a person asks for: look, refuse early, and choose what follows."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseBranchOperator

from airflow_provider_ragops.contract import TAG_GATE_REPORT, ServingTarget
from airflow_provider_ragops.exceptions import ConfigurationError, RegistryError, VersionMissingError
from airflow_provider_ragops.hooks.mlflow import MlflowHook
from airflow_provider_ragops.hooks.serving import ServingHook
from airflow_provider_ragops.operators import rendered
from airflow_provider_ragops.operators.run_type import run_type
from airflow_provider_ragops.operators.translation import translated_errors
from airflow_provider_ragops.promotion.registry import VersionInfo
from airflow_provider_ragops.release.plan import Action, Step, Wish, step_for_version, step_without_version
from airflow_provider_ragops.release.question import Facts, question
from airflow_provider_ragops.release.record import ReleaseRecord, read_record

if TYPE_CHECKING:
    from airflow.sdk import Context

XCOM_QUESTION = "question"


class ReleasePlanOperator(BaseBranchOperator):
    """Check what a person filled in, and choose the task that follows. Reads only, takes no lock.

    A version that the gate let pass is released; one that it did not goes to an ``ApprovalOperator`` first, whose
    ``body`` is the XCom ``question``: the gate's reasons and numbers, and what serves now. Rollback to the last good
    version, hold and its lifting ask MLflow nothing: it may be what is down.

    :param target: the serving target. (templated, when given as a dict of :class:`ServingTarget`'s fields)
    :param action: ``release``, ``roll back``, ``hold`` or ``lift the hold``. (templated)
    :param version: the version to release or to roll back to; empty for the last good one. (templated)
    :param reason: why. (templated)
    :param follow: the task for each :class:`~airflow_provider_ragops.release.plan.Step`.
    """

    template_fields: Sequence[str] = ("target", "action", "version", "reason")
    ui_color = "#f5e6a8"

    def __init__(
        self,
        *,
        target: ServingTarget | dict[str, Any],
        action: str,
        reason: str,
        follow: dict[Step, str],
        version: str = "",
        mlflow_conn_id: str = "mlflow_default",
        kubernetes_conn_id: str = "kubernetes_default",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.target = target.as_dict() if isinstance(target, ServingTarget) else target
        self.action = action
        self.version = version
        self.reason = reason
        self.follow = follow
        self.mlflow_conn_id = mlflow_conn_id
        self.kubernetes_conn_id = kubernetes_conn_id

    @cached_property
    def mlflow(self) -> MlflowHook:
        return MlflowHook(self.mlflow_conn_id)

    def choose_branch(self, context: Context) -> str:
        with translated_errors():
            self._require_person(context)
            wish = self._wish()
            step = step_without_version(wish) or self._judged(context, wish)
        self.log.info("%s at %s: next is %r", wish.action, wish.target.slug, step.value)
        return self.follow[step]

    def _require_person(self, context: Context) -> None:
        if (kind := run_type(context)) != "manual":
            raise ConfigurationError(
                f"task {self.task_id}", expected="a run that a person triggered", seen=f"a {kind} run",
                action="Trigger the DAG from its form, or by the API.",
            )

    def _wish(self) -> Wish:
        action = rendered.required("action", self.action)
        if action not in set(Action):
            raise ConfigurationError(
                "parameter 'action'", expected=f"one of {', '.join(Action)}", seen=repr(action), action="Correct it.",
            )
        version = rendered.optional(self.version) or ""
        if version and not version.isdecimal():
            raise ConfigurationError(
                "parameter 'version'", expected="a number or nothing", seen=repr(version), action="Correct it.",
            )
        reason = rendered.required("reason", self.reason)
        return Wish(ServingTarget.of(self.target), Action(action), version, reason)

    def _judged(self, context: Context, wish: Wish) -> Step:
        candidate = self.mlflow.registry().version(wish.target.model, wish.version)
        record = self._record(wish.target)
        step = step_for_version(wish, candidate, record)
        if step is Step.APPROVE:
            person = context["dag_run"].triggering_user_name or ""
            context["ti"].xcom_push(key=XCOM_QUESTION, value=question(wish, self._facts(candidate, record), person))
        return step

    def _record(self, target: ServingTarget) -> ReleaseRecord | None:
        found = ServingHook(self.kubernetes_conn_id).updater(target).read()
        return read_record(found, target.model, f"Deployment {target.slug}")

    def _facts(self, candidate: VersionInfo, record: ReleaseRecord | None) -> Facts:
        serving = self._serving(record) if record and record.to_version else None
        # A version without a run is gone from the registry.
        versions = [candidate, *([serving] if serving and serving.run_id else [])]
        metrics = {each.version: self.mlflow.registry().metrics(each.model, each.version) for each in versions}
        report, url = self._report(candidate.tags.get(TAG_GATE_REPORT, ""))
        return Facts(candidate, serving, record, metrics, report, url)

    def _serving(self, record: ReleaseRecord) -> VersionInfo:
        """What serves now, also where its version was deleted: that may be why a person releases another."""
        try:
            return self.mlflow.registry().version(record.model, record.to_version)
        except VersionMissingError as error:
            self.log.warning("the version that serves is not in the registry: %s", error)
            return VersionInfo(record.model, record.to_version, "", {})

    def _report(self, uri: str) -> tuple[dict[str, Any], str]:
        """The gate's report and where it lies; an unreadable one must not stop the question."""
        run_id, _, file = uri.removeprefix("runs:/").partition("/")
        if not file:
            return {}, uri
        try:
            url = self.mlflow.run_url(self.mlflow.run(run_id))
            with tempfile.TemporaryDirectory() as folder:
                found = self.mlflow.download(run_id, file, Path(folder))
                return (dict(json.loads(found.read_text())) if found else {}), url
        except (RegistryError, ValueError) as error:
            self.log.warning("the gate's report %s could not be read: %s", uri, error)
            return {}, uri
