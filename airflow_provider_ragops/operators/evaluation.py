"""Score candidate and champion on the same held-out rows, in a pod."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow_provider_ragops import contract
from airflow_provider_ragops.exceptions import ConfigurationError
from airflow_provider_ragops.operators import pod_parts
from airflow_provider_ragops.operators.translation import translated_errors
from airflow_provider_ragops.operators.workload import RETURN_VALUE, WorkloadPodOperator
from airflow_provider_ragops.workloads.evaluation.slices import parse

if TYPE_CHECKING:
    from airflow.sdk import Context


class ModelEvaluationPodOperator(WorkloadPodOperator):
    """
    Evaluate a candidate beside the champion, in the image that trained it.

    The champion's alias is resolved to a version before the pod starts, and both versions are passed by number:
    an alias that moves meanwhile changes nothing. Returns ``{"run_id", "candidate", "champion"}``; ``champion`` is
    None where the alias is not set. The run holds evaluation/predictions.parquet and evaluation/metrics.json.

    :param candidate: Number of the candidate's version. (templated)
    :param champion_alias: Alias of the version to compare with.
    :param slices: Groups of held-out rows in which the gate compares both as well, as a list or as text with commas:
        ``tenure_days:4`` for four groups by a feature's quantiles, ``country`` for each of its values. (templated)
    :param cpu: CPU request.
    :param cpu_limit: CPU limit; none by default.
    :param memory: Memory request and limit.
    :param active_deadline_seconds: How long the pod may run before its node ends it.
    """

    template_fields: Sequence[str] = (*WorkloadPodOperator.template_fields, "candidate", "slices")
    workload = "airflow_provider_ragops.workloads.evaluation"

    def __init__(
        self,
        *,
        candidate: str,
        champion_alias: str = contract.ALIAS_CHAMPION,
        slices: Sequence[str] | str = (),
        cpu: str = "1",
        cpu_limit: str | None = None,
        memory: str = "2Gi",
        startup_timeout_seconds: int = 600,
        active_deadline_seconds: int = 3600,
        **kwargs: Any,
    ) -> None:
        kwargs.setdefault("container_resources", pod_parts.resources(cpu, memory, cpu_limit))
        super().__init__(
            startup_timeout_seconds=startup_timeout_seconds, active_deadline_seconds=active_deadline_seconds, **kwargs
        )
        contract.require_alias(champion_alias, f"champion_alias of task {self.task_id}")
        self.candidate = candidate
        self.champion_alias = champion_alias
        self.slices = slices
        self.cpu = cpu
        self.cpu_limit = cpu_limit
        self.memory = memory

    def execute(self, context: Context) -> None:
        """Evaluate.

        :raises AirflowFailException: when a retry can't help; the message names pod, attempt and next step.
        :raises WorkloadFailedError: when the pod failed in a way that may pass.
        :raises UnreachableError: when MLflow or the cluster did not answer.
        """
        with translated_errors():
            candidate, slices = self._candidate(), self._slices()
            experiment = self._experiment(candidate)
            champion = self.mlflow.registry().alias(self.model, self.champion_alias)
            run_id = self._evaluate(context, candidate, champion, slices, experiment)
            result = {"run_id": run_id, "candidate": candidate, "champion": champion}
            # Not returned: the base class' do_xcom_push=False means "no sidecar" and "no return value" alike.
            context["ti"].xcom_push(key=RETURN_VALUE, value=result)

    def _candidate(self) -> str:
        if not str(self.candidate).isdecimal():
            raise ConfigurationError(
                f"task {self.task_id}", expected="the number of a version as candidate", seen=repr(self.candidate),
                action="Pass what the training task returned.",
            )
        return str(self.candidate)

    def _slices(self) -> str:
        """Their names in the pod's words; read here, so that a mistake costs no pod."""
        text = self.slices if isinstance(self.slices, str) else ",".join(self.slices)
        return ",".join(each.name for each in parse(text))

    def _experiment(self, candidate: str) -> str:
        trained = self.mlflow.run(self.mlflow.registry().version(self.model, candidate).run_id)
        return self.mlflow.experiment_name(trained.info.experiment_id)

    def _evaluate(
        self, context: Context, candidate: str, champion: str | None, slices: str, experiment: str
    ) -> str:
        champion_text = champion or contract.NO_VERSION
        work = contract.digest(
            "evaluation", self.model, candidate, champion_text, slices, self.data_digest, str(self.image)
        )
        self.prepare(context, work, self._command_line(candidate, champion_text, slices))
        state = self.run_pod(context)
        found = self.mlflow.find_run(
            experiment,
            {
                contract.TAG_KIND: "evaluation",
                contract.TAG_COMPLETED: self.attempt,
                contract.TAG_CANDIDATE: candidate,
                contract.TAG_GATE_CHAMPION: champion_text,
            },
            "FINISHED",
        )
        if found is None:
            raise self.no_proof(
                state, expected=f"a finished evaluation of {self.model} version {candidate} in {experiment!r}",
                seen="MLflow has no finished run with this attempt's completion marker",
            )
        self.mlflow_run_url = self.mlflow.run_url(found)
        return str(found.info.run_id)

    def _command_line(self, candidate: str, champion: str, slices: str) -> list[str]:
        values = {
            "model": self.model, "candidate": candidate, "champion": champion, "data": self.data_uri,
            "data-digest": self.data_digest, "partition": self.partition_key, "slices": slices,
        }  # fmt: skip
        return [text for name, value in values.items() if value for text in (f"--{name}", value)]
