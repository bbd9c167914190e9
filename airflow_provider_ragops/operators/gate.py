"""The quality gate as a branch of a DAG."""

from __future__ import annotations

import tempfile
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseBranchOperator

from airflow_provider_ragops.contract import (
    ALIAS_CHALLENGER,
    ARTIFACT_GATE,
    TAG_COMPLETED,
    UTC,
    ServingTarget,
    require_alias,
)
from airflow_provider_ragops.hooks.mlflow import MlflowHook
from airflow_provider_ragops.links.mlflow import MlflowRunLink
from airflow_provider_ragops.operators import rendered
from airflow_provider_ragops.operators.run_type import run_type
from airflow_provider_ragops.operators.translation import translated_errors
from airflow_provider_ragops.promotion import evaluation, verdict
from airflow_provider_ragops.promotion.gate import judge
from airflow_provider_ragops.promotion.report import PROMOTE, GateReport
from airflow_provider_ragops.promotion.rules import GateRules, Rules

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow.sdk import Context

REPORT_FILE = f"{ARTIFACT_GATE}/report.json"
XCOM_VERDICT = "verdict"
MOST_REASONS = 10


class QualityGateOperator(BaseBranchOperator):
    """
    Judge a candidate against the champion on the same held-out rows, and choose the branch that follows.

    Writes ``gate/report.json`` into the evaluation run, tags the candidate with verdict, report and the champion
    that it was judged against, and on ``promote`` sets the alias ``challenger``, unless a version of a newer
    partition waits there (on any other verdict it takes the alias from this candidate). Pushes the XCom
    ``verdict``: model, verdict, reasons, candidate, champion, metrics, report, run_url. The rules are described in
    :mod:`airflow_provider_ragops.promotion.gate`.

    A backfill, and a run with ``evaluate_only``, judges and tags, but sets no alias and follows ``follow_stop``.

    :param model: Registered model. (templated)
    :param candidate: Version to judge. (templated)
    :param champion: Version that it was evaluated against; empty or ``none`` for the first model. (templated)
    :param evaluation_run_id: MLflow run with the predictions of both. (templated)
    :param follow_promote: Task (or tasks) that follow ``promote``.
    :param follow_reject: Task (or tasks) that follow ``reject`` and ``not-enough-data``.
    :param follow_stop: Task (or tasks) that follow where the run stops before the release; None skips them all.
    :param evaluate_only: Stop before the release, whatever the verdict. (templated)
    :param min_auc: Least AUC of a candidate. (templated)
    :param non_inferiority_margin: Largest loss of AUC against the champion. (templated)
    :param confidence: One-sided confidence of the comparison. (templated)
    :param min_rows: Least number of held-out rows. (templated)
    :param max_slice_loss: Largest loss of AUC in a slice (see ``slices`` of the evaluation); 1 for any. (templated)
    :param min_slice_rows: Least number of rows of a slice that may object. (templated)
    :param samples: Number of resamples of the comparison. (templated)
    :param challenger: Alias for a candidate that passed. (templated)
    :param target: Where the model is served. With it, a champion whose version was deleted is not mistaken for a
        first model: the ledger knows what was released there. A dict is templated.
    :param mlflow_conn_id: The Airflow connection.
    """

    template_fields: tuple[str, ...] = (
        "model", "candidate", "champion", "evaluation_run_id", "evaluate_only", "min_auc",
        "non_inferiority_margin", "confidence", "min_rows", "max_slice_loss", "min_slice_rows", "samples",
        "challenger", "target",
    )  # fmt: skip
    operator_extra_links = (MlflowRunLink(),)
    ui_color = "#f5e6a8"

    def __init__(
        self,
        *,
        model: str,
        candidate: str,
        champion: str | None,
        evaluation_run_id: str,
        follow_promote: str | list[str],
        follow_reject: str | list[str] | None,
        follow_stop: str | list[str] | None = None,
        evaluate_only: bool | str = False,
        min_auc: float | str = GateRules.min_auc,
        non_inferiority_margin: float | str = GateRules.non_inferiority_margin,
        confidence: float | str = GateRules.confidence,
        min_rows: int | str = GateRules.min_rows,
        max_slice_loss: float | str = GateRules.max_slice_loss,
        min_slice_rows: int | str = GateRules.min_slice_rows,
        samples: int | str = GateRules.samples,
        challenger: str = ALIAS_CHALLENGER,
        target: ServingTarget | dict[str, Any] | None = None,
        mlflow_conn_id: str = MlflowHook.default_conn_name,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        require_alias(challenger, f"alias of task {self.task_id}")
        self.model = model
        self.candidate = candidate
        self.champion = champion
        self.evaluation_run_id = evaluation_run_id
        self.follow_promote = follow_promote
        self.follow_reject = follow_reject
        self.follow_stop = follow_stop
        self.evaluate_only = evaluate_only
        self.min_auc = min_auc
        self.non_inferiority_margin = non_inferiority_margin
        self.confidence = confidence
        self.min_rows = min_rows
        self.max_slice_loss = max_slice_loss
        self.min_slice_rows = min_slice_rows
        self.samples = samples
        self.challenger = challenger
        # A dict is rendered field by field; the value itself would be passed through untouched.
        self.target = target.as_dict() if isinstance(target, ServingTarget) else target
        self.mlflow_conn_id = mlflow_conn_id

    @cached_property
    def hook(self) -> MlflowHook:
        return MlflowHook(self.mlflow_conn_id)

    def choose_branch(self, context: Context) -> str | list[str] | None:
        with translated_errors():
            rules = self.rules()
            stops = rendered.truth("evaluate_only", self.evaluate_only) or run_type(context) == "backfill"
            report = judge(self._evaluation(), rules)
            self.log.info("Gate of model %s:\n%s", self.model, report.as_text())
            told = self._record(report)
            if not stops:
                verdict.move_challenger(self.hook.registry(), self.model, report, self.challenger)
        context["ti"].xcom_push(key=XCOM_VERDICT, value=told)
        if stops:
            self.log.info("This run stops before the release (a backfill, or evaluate_only).")
            return self.follow_stop
        return self.follow_promote if report.verdict == PROMOTE else self.follow_reject

    def rules(self) -> Rules:
        """What the candidate must reach, after rendering.

        :raises ConfigurationError: when a parameter is no number, or impossible.
        """
        return GateRules(min_auc=rendered.number("min_auc", self.min_auc), **self.comparison())

    def comparison(self) -> dict[str, Any]:
        """The rules that are the same whatever is compared."""
        return {
            "non_inferiority_margin": rendered.number("non_inferiority_margin", self.non_inferiority_margin),
            "confidence": rendered.number("confidence", self.confidence),
            "min_rows": rendered.whole_number("min_rows", self.min_rows),
            "max_slice_loss": rendered.number("max_slice_loss", self.max_slice_loss),
            "min_slice_rows": rendered.whole_number("min_slice_rows", self.min_slice_rows),
            "samples": rendered.whole_number("samples", self.samples),
        }

    def _evaluation(self) -> evaluation.Evaluation:
        run = self.hook.run(rendered.required("evaluation_run_id", self.evaluation_run_id))
        self.mlflow_run_url = self.hook.run_url(run)
        champion = rendered.optional(self.champion)
        with tempfile.TemporaryDirectory() as folder:
            metrics, predictions = (
                self.hook.download(self.evaluation_run_id, file, Path(folder))
                for file in (evaluation.METRICS_FILE, evaluation.PREDICTIONS_FILE)
            )
            of_candidate, of_champion = evaluation.read_metrics(metrics)
            rows = evaluation.read_predictions(predictions)
        return evaluation.Evaluation(
            run_id=self.evaluation_run_id,
            completed=evaluation.is_completed(run, run.data.tags.get(TAG_COMPLETED)),
            candidate=self._judged(rendered.required("candidate", self.candidate), of_candidate),
            champion=self._judged(champion, of_champion) if champion else None,
            predictions=rows,
            measured_champion=of_champion.get("version"),
            served=None if champion else self._served(),
        )

    def _served(self) -> str | None:
        """What the ledger says was released to the target last."""
        if self.target is None:
            return None
        entry = self.hook.ledger().served_on(ServingTarget.of(self.target).slug, datetime.now(UTC))
        return entry.to_version or None if entry else None

    def _judged(self, version: str, measured: Mapping[str, Any]) -> evaluation.JudgedVersion:
        info = self.hook.registry().version(self.model, version)
        return evaluation.judged_version(info, self.hook.run(info.run_id), measured)

    def _record(self, report: GateReport) -> dict[str, Any]:
        """Keep the report in MLflow, then the verdict; returns what the next tasks are told."""
        uri = f"runs:/{self.evaluation_run_id}/{REPORT_FILE}"
        self.hook.log_json(self.evaluation_run_id, REPORT_FILE, {"model": self.model, **report.as_dict()})
        verdict.tag(self.hook.registry(), self.model, report, uri)
        return {
            "model": self.model,
            "verdict": report.verdict,
            "reasons": _some(report.reasons),
            "candidate": report.candidate,
            "champion": report.champion,
            "metrics": dict(report.numbers),
            "report": uri,
            "run_url": self.mlflow_run_url,
        }


def _some(reasons: tuple[str, ...]) -> list[str]:
    """An XCom and an alert stay short, however many slices object; the report has them all."""
    left = len(reasons) - MOST_REASONS
    return [*reasons[:MOST_REASONS], *([f"and {left} more, in the report"] if left > 0 else [])]
