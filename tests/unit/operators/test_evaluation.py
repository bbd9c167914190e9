from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from unittest import mock

import pytest
from airflow.providers.cncf.kubernetes.operators.pod import KubernetesPodOperator
from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_ragops import contract
from airflow_provider_ragops.exceptions import ConfigurationError, UnreachableError
from airflow_provider_ragops.hooks.mlflow import MlflowHook
from airflow_provider_ragops.operators.evaluation import ModelEvaluationPodOperator
from tests.stores import register
from tests.unit.operators.pods import KUBERNETES, TaskInstance, context, link_of, pod, terminated

MODEL = "Churn"


def operator(**changes: Any) -> ModelEvaluationPodOperator:
    given: dict[str, Any] = {
        "task_id": "evaluate", "image": "registry/training:1", "namespace": "ml-workloads", "model": MODEL,
        "candidate": "2", "data_uri": "runs:/r/t.parquet", "data_digest": "d1", "partition": "2026-11-29",
    }  # fmt: skip
    return ModelEvaluationPodOperator(**given | changes)


class Life:
    """The pod's life is replaced by an evaluation run, unless ``silent``."""

    def __init__(self, hook: MlflowHook) -> None:
        self.hook = hook
        self.silent = False
        self.arguments: dict[str, str] = {}

    def __call__(self, given: Any) -> None:
        self.arguments = dict(zip(given.arguments[::2], given.arguments[1::2], strict=True))
        given.pod = given.last_seen = pod(phase="Succeeded", state=terminated(0, "Completed"))
        self.hook.registry().set_alias(MODEL, "champion", "2")  # someone moves the alias meanwhile
        if not self.silent:
            tags = {
                contract.TAG_KIND: "evaluation", contract.TAG_COMPLETED: given.attempt,
                contract.TAG_CANDIDATE: self.arguments["--candidate"],
                contract.TAG_GATE_CHAMPION: self.arguments["--champion"],
            }  # fmt: skip
            self.hook.end_run(self.hook.start_run("churn", "evaluation", tags))


@pytest.fixture
def life(mlflow_store: MlflowHook, monkeypatch: pytest.MonkeyPatch) -> Iterator[Life]:
    """Two registered versions; no pods in the cluster."""
    monkeypatch.setenv("AIRFLOW_CONN_KUBERNETES_DEFAULT", KUBERNETES)
    found = Life(mlflow_store)
    for _ in range(2):
        register(mlflow_store, MODEL)
    client = mock.MagicMock()
    client.list_namespaced_pod.return_value.items = []
    monkeypatch.setattr(KubernetesPodOperator, "execute_sync", lambda given, _: found(given))
    with mock.patch.object(ModelEvaluationPodOperator, "hook", mock.MagicMock(core_v1_client=client)):
        yield found


def test_champion_is_pinned_before_the_pod_starts(life: Life) -> None:
    """M2, M3: both versions go in by number; an alias that moves during the evaluation changes nothing."""
    life.hook.registry().set_alias(MODEL, "champion", "1")
    ti = TaskInstance()
    operator().execute(context(ti))
    assert (life.arguments["--candidate"], life.arguments["--champion"]) == ("2", "1")
    run_id = ti.xcoms["return_value"]["run_id"]
    assert ti.xcoms["return_value"] == {"run_id": run_id, "candidate": "2", "champion": "1"}
    assert life.hook.run(run_id).data.tags[contract.TAG_KIND] == "evaluation"


def test_task_links_to_its_run(life: Life, monkeypatch: pytest.MonkeyPatch) -> None:
    """The button opens the evaluation's run."""
    monkeypatch.setattr(MlflowHook, "run_url", lambda _, run: f"page of {run.info.run_id}")
    ti, given = TaskInstance(), operator()
    given.execute(context(ti))
    assert link_of(given) == f"page of {ti.xcoms['return_value']['run_id']}"


def test_range_of_one_day_is_the_day(life: Life) -> None:
    """The pod is told the canonical partition."""
    operator(partition="2026-11-29_2026-11-29").execute(context(TaskInstance()))
    assert life.arguments["--partition"] == "2026-11-29"


@pytest.mark.parametrize(("change", "seconds"), [({}, 3600), ({"active_deadline_seconds": 60}, 60)])
def test_pod_has_a_deadline(life: Life, change: dict[str, int], seconds: int) -> None:
    """An evaluation that hangs is ended by its node after an hour, or as told."""
    given = operator(**change)
    given.execute(context(TaskInstance()))
    assert given.build_pod_request_obj(context(TaskInstance())).spec.active_deadline_seconds == seconds


def test_unreadable_experiment_is_named(life: Life, monkeypatch: pytest.MonkeyPatch) -> None:
    """MLflow fails between two questions: the address is named, and the task may be retried."""
    monkeypatch.setattr("mlflow.MlflowClient.get_experiment", mock.Mock(side_effect=later()))
    with pytest.raises(UnreachableError, match=r"experiment '1' at .*\(connection 'mlflow_default'\).*starting"):
        operator().execute(context(TaskInstance()))
    assert life.arguments == {}


def later() -> Exception:
    from mlflow.exceptions import MlflowException
    from mlflow.protos.databricks_pb2 import TEMPORARILY_UNAVAILABLE

    return MlflowException("the database is starting", error_code=TEMPORARILY_UNAVAILABLE)


def test_no_champion_is_none(life: Life) -> None:
    """The first candidate is compared with nothing."""
    ti = TaskInstance()
    operator().execute(context(ti))
    assert life.arguments["--champion"] == contract.NO_VERSION
    assert ti.xcoms["return_value"]["champion"] is None


def test_exit_zero_without_marker_is_a_failure(life: Life) -> None:
    """K1: a pod that ends well and leaves no finished evaluation fails the task."""
    life.silent = True
    ti = TaskInstance()
    with pytest.raises(AirflowFailException, match=r"ml-workloads/train-1.*no finished run with this attempt's"):
        operator().execute(context(ti))
    assert ti.xcoms == {}


@pytest.mark.parametrize(
    ("candidate", "message"), [("None", "expected the number of a version"), ("9", "version 9 of model 'Churn'")]
)
def test_impossible_candidate_is_named(life: Life, candidate: str, message: str) -> None:
    """A candidate that is no number or does not exist fails at once, without a pod."""
    with pytest.raises(AirflowFailException, match=message):
        operator(candidate=candidate).execute(context(TaskInstance()))
    assert life.arguments == {}


def test_candidate_is_templated() -> None:
    """The candidate comes from the training task's result."""
    assert set(ModelEvaluationPodOperator.template_fields) - set(KubernetesPodOperator.template_fields) == {
        "model", "partition", "data_uri", "data_digest", "mlflow_tracking_uri", "mlflow_secret", "git_commit",
        "candidate", "slices",
    }  # fmt: skip


@pytest.mark.parametrize("slices", ["tenure_days:4, country", ["tenure_days:4", "country"]])
def test_slices_reach_the_pod_in_one_form(life: Life, slices: Any) -> None:
    """As text from a form or as a list, the pod is told the same; without slices nothing is said of them."""
    operator(slices=slices).execute(context(TaskInstance()))
    assert life.arguments["--slices"] == "tenure_days:4,country"
    operator().execute(context(TaskInstance()))
    assert "--slices" not in life.arguments


def test_other_slices_are_other_work(life: Life) -> None:
    """A living pod of an earlier try is adopted only where it cuts the same slices."""
    works = []
    for slices in ("", "tenure_days:4", "tenure_days:5", " tenure_days:5 "):
        given = operator(slices=slices)
        given.execute(context(TaskInstance()))
        works.append(given.labels[contract.LABEL_WORK])
    assert len(set(works)) == 3
    assert works[2] == works[3]


def test_an_impossible_slice_costs_no_pod(life: Life) -> None:
    """A slice that can't be cut fails at once."""
    with pytest.raises(AirflowFailException, match="slice 'tenure_days:1'"):
        operator(slices="tenure_days:1").execute(context(TaskInstance()))
    assert life.arguments == {}


@pytest.mark.parametrize("alias", ["latest", "v3"])
def test_reserved_alias_is_refused_when_the_file_is_parsed(alias: str) -> None:
    """M11: 'latest' would be whatever is newest: refused by the constructor."""
    with pytest.raises(ConfigurationError, match=f"champion_alias of task evaluate.*saw '{alias}'"):
        operator(champion_alias=alias)
