"""Training, evaluation and gate of a RAG retriever: the operators of any model, with what is its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow_provider_ragops.operators import rendered
from airflow_provider_ragops.operators.evaluation import ModelEvaluationPodOperator
from airflow_provider_ragops.operators.gate import QualityGateOperator
from airflow_provider_ragops.operators.training import GpuTrainingPodOperator
from airflow_provider_ragops.promotion.rules import RetrievalRules
from airflow_provider_ragops.workloads.rag.training.parameters import RetrieverParameters


class RetrieverTrainingPodOperator(GpuTrainingPodOperator):
    """
    Train a retriever; see :class:`~airflow_provider_ragops.operators.training.GpuTrainingPodOperator`.

    :param dimension: How many numbers an embedding has: 256, 384, 512 or 768. (templated)
    """

    template_fields: Sequence[str] = (*GpuTrainingPodOperator.template_fields, "dimension")
    workload = "airflow_provider_ragops.workloads.rag.training"

    def __init__(self, *, dimension: int | str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.dimension = dimension

    @property
    def parameters(self) -> RetrieverParameters:
        """The hyperparameters after rendering.

        :raises ConfigurationError: when one is no number of its kind, or out of bounds.
        """
        return RetrieverParameters.parse(vars(self))


class RetrieverEvaluationPodOperator(ModelEvaluationPodOperator):
    """
    Evaluate a retriever; see :class:`~airflow_provider_ragops.operators.evaluation.ModelEvaluationPodOperator`.

    A slice names a column of the pairs, such as ``library``; each of its values is a group.
    """

    workload = "airflow_provider_ragops.workloads.rag.evaluation"


class RetrieverGateOperator(QualityGateOperator):
    """
    Judge a retriever by the mean reciprocal rank; see
    :class:`~airflow_provider_ragops.operators.gate.QualityGateOperator`, whose ``min_auc`` says nothing here.

    :param min_mrr: Least mean reciprocal rank of a candidate. (templated)
    :param min_recall_at_5: Least share of questions whose passage is among the first five. (templated)
    :param non_inferiority_margin: Largest loss of mean reciprocal rank against the champion. (templated)
    """

    template_fields: tuple[str, ...] = (*QualityGateOperator.template_fields, "min_mrr", "min_recall_at_5")

    def __init__(
        self,
        *,
        min_mrr: float | str = RetrievalRules.min_mrr,
        min_recall_at_5: float | str = RetrievalRules.min_recall_at_5,
        non_inferiority_margin: float | str = RetrievalRules.non_inferiority_margin,
        **kwargs: Any,
    ) -> None:
        super().__init__(non_inferiority_margin=non_inferiority_margin, **kwargs)
        self.min_mrr = min_mrr
        self.min_recall_at_5 = min_recall_at_5

    def rules(self) -> RetrievalRules:
        return RetrievalRules(
            min_mrr=rendered.number("min_mrr", self.min_mrr),
            min_recall_at_5=rendered.number("min_recall_at_5", self.min_recall_at_5),
            **self.comparison(),
        )
