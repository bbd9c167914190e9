"""Training, registration and evaluation of a retriever, against a real MLflow store."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from airflow_provider_ragops import contract
from airflow_provider_ragops.exceptions import DataError
from airflow_provider_ragops.hooks.mlflow import MlflowHook
from airflow_provider_ragops.promotion import evaluation
from airflow_provider_ragops.workloads.evaluation.arguments import EvaluationArguments
from airflow_provider_ragops.workloads.evaluation.procedure import evaluate
from airflow_provider_ragops.workloads.evaluation.slices import parse
from airflow_provider_ragops.workloads.rag.evaluation.measurement import Retrieval, passage_vectors
from airflow_provider_ragops.workloads.rag.metrics import summary
from airflow_provider_ragops.workloads.rag.training.__main__ import parse as parse_command
from airflow_provider_ragops.workloads.rag.training.procedure import make
from airflow_provider_ragops.workloads.training.arguments import TrainingArguments
from airflow_provider_ragops.workloads.training.procedure import train
from airflow_provider_ragops.workloads.training.registration import Registered
from tests.unit.workloads.rag.retrievers import MODEL, frame, pair_set, parameters, retriever
from tests.unit.workloads.training_sets import environment, log_training_set

# MLflow's hints about types and about a signature without an inferred example; both are given explicitly.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*type hint:UserWarning"),
    pytest.mark.filterwarnings("ignore:.*Add type hints:UserWarning"),
    pytest.mark.filterwarnings("ignore:.*Any type hint is inferred as AnyType:UserWarning"),
]
Data = tuple[str, str]


def zero() -> Any:
    """A model of another kind. Made here: importing MLflow at module level would slow every collection."""
    import mlflow

    class Zero(mlflow.pyfunc.PythonModel):  # type: ignore[misc,name-defined]
        def predict(self, context: Any, model_input: pd.DataFrame, params: Any = None) -> list[float]:
            return [0.0] * len(model_input)

    return Zero()


@pytest.fixture
def pairs_logged(store: MlflowHook, tmp_path: Path) -> Data:
    return log_training_set(store, frame(), tmp_path)


def arguments(data: Data, **changes: Any) -> TrainingArguments:
    return TrainingArguments(
        model=MODEL, experiment="rag", data_uri=data[0], data_digest=data[1], partition="2026-11-29",
        cutoff="2026-11-29T00:00:00+00:00", parameters=parameters(**changes),
    )  # fmt: skip


def trained(store: MlflowHook, data: Data, **changes: Any) -> Registered:
    return train(arguments(data, **changes), environment(store), make=make)


def test_a_version_carries_what_serving_checks(store: MlflowHook, pairs_logged: Data, tmp_path: Path) -> None:
    """The metadata names kind, dimension, vocabulary and fingerprint; the digest is that of the files."""
    import mlflow

    done = trained(store, pairs_logged, dimension=768)
    version = store.client().get_model_version(MODEL, done.version)
    assert version.tags[contract.TAG_COMPLETED] == "attempt-1"
    assert version.tags[contract.TAG_SPLIT_ID] == contract.split_id(MODEL)
    folder = Path(mlflow.artifacts.download_artifacts(f"models:/{MODEL}/{done.version}", dst_path=str(tmp_path / "m")))
    assert contract.tree_digest(folder) == version.tags[contract.TAG_MODEL_DIGEST]
    model = mlflow.pyfunc.load_model(str(folder))
    found = model.unwrap_python_model().retriever
    assert {name: model.metadata.metadata[name] for name in ("ragops.kind", "dimension", "vocabulary_size")} == {
        "ragops.kind": "rag-retriever", "dimension": 768, "vocabulary_size": 30_522,
    }  # fmt: skip
    assert model.metadata.metadata["embedder_fingerprint"] == found.fingerprint
    found.check(model.metadata.metadata)
    metrics = store.run(done.run_id).data.metrics
    assert {"mrr", "recall_at_5", "base_mrr", "base_recall_at_5", "train_loss"} <= set(metrics)


def test_same_work_is_reused_another_dimension_is_not(store: MlflowHook, pairs_logged: Data) -> None:
    """The registration key of churn: a second attempt finds the version; another dimension is another one."""
    first = trained(store, pairs_logged)
    assert train(arguments(pairs_logged), environment(store, "attempt-2"), make=make) == first
    assert trained(store, pairs_logged, dimension=384).version != first.version


def test_training_is_deterministic(store: MlflowHook, pairs_logged: Data) -> None:
    """Equal data, parameters and seed give one fingerprint, in another image too."""
    import mlflow

    versions = [
        train(arguments(pairs_logged), environment(store, image=image), make=make).version for image in ("t:1", "t:2")
    ]
    assert len(set(versions)) == 2
    loaded = [mlflow.pyfunc.load_model(f"models:/{MODEL}/{version}") for version in versions]
    assert len({model.metadata.metadata["embedder_fingerprint"] for model in loaded}) == 1


def test_candidate_and_champion_answer_the_same_questions(store: MlflowHook, pairs_logged: Data) -> None:
    """Both versions' reciprocal ranks of the held-out questions, by module, with metrics that follow from them."""
    champion, candidate = (trained(store, pairs_logged, dimension=each) for each in (256, 768))
    asked = EvaluationArguments(
        MODEL, candidate.version, champion.version, *pairs_logged, "2026-11-29", parse("source, library")
    )
    run_id = evaluate(asked, environment(store, "attempt-3"), measurement=Retrieval())
    folder = Path(store.client().download_artifacts(run_id, contract.ARTIFACT_EVALUATION))
    rows = evaluation.read_predictions(folder / "predictions.parquet")
    assert rows is not None
    assert sorted(rows.users) == sorted(pair_set().held_out["module"])
    assert {name: set(groups) for name, groups in rows.slices.items()} == {"source": {"policy"}, "library": {"policy"}}
    for measured, scores in zip(
        evaluation.read_metrics(folder / "metrics.json"), (rows.candidate, rows.champion), strict=True
    ):
        assert {name: measured[name] for name in summary(scores)} == pytest.approx(summary(scores))
        assert (measured["rows"], measured["error"]) == (len(scores), None)
    assert store.run(run_id).data.metrics["candidate_mrr"] == pytest.approx(summary(rows.candidate)["mrr"])


def test_a_champion_of_another_kind_is_reported(store: MlflowHook, pairs_logged: Data, tmp_path: Path) -> None:
    """A version that is no retriever is the gate's business, and no reason for the evaluation to fail."""
    import mlflow

    candidate = trained(store, pairs_logged)
    mlflow.set_tracking_uri(store.tracking_uri)
    # The default experiment of a local store keeps its artifacts in the working directory.
    elsewhere = store.client().create_experiment("another kind", artifact_location=str(tmp_path))
    with mlflow.start_run(run_id=store.client().create_run(elsewhere).info.run_id) as run:
        logged = mlflow.pyfunc.log_model(name="model", python_model=zero(), pip_requirements=[])
    other = store.client().create_model_version(MODEL, logged.model_uri, run.info.run_id, model_id=logged.model_id)
    asked = EvaluationArguments(MODEL, candidate.version, str(other.version), *pairs_logged, "2026-11-29")
    run_id = evaluate(asked, environment(store, "attempt-3"), measurement=Retrieval())
    folder = Path(store.client().download_artifacts(run_id, contract.ARTIFACT_EVALUATION))
    told = json.loads((folder / "metrics.json").read_text())["champion"]
    assert (told["mrr"], told["rows"]) == (None, 0)
    assert "expected a model of kind 'rag-retriever'; saw kind None" in told["error"]


@pytest.mark.parametrize("slices", ["module", "nothing", "library:3", "question"])
def test_slices_that_make_no_sense_are_named(slices: str) -> None:
    """A slice is a column of a few values, whole."""
    with pytest.raises(DataError, match=f"slice '{slices}': expected one of the columns library, pair_id, source"):
        Retrieval().groups(parse(slices), pair_set())


def test_new_passages_are_embedded_with_the_version_itself() -> None:
    """Both versions search the same passages: known texts keep their vectors, a changed one is embedded anew."""
    model, data = retriever(512), pair_set()
    assert np.array_equal(passage_vectors(model, data), model.store.vectors)
    rows = data.frame.copy()
    changed = rows["passage_id"] == data.passages[0].id
    rows.loc[changed, "passage"] = "Parcels are carried by bicycle."
    found = passage_vectors(model, type(data)(data.uri, data.digest, rows))
    title = data.passages[0].title
    assert found[0] == pytest.approx(model.embed([f"{title}. Parcels are carried by bicycle."])[0], abs=1e-5)
    assert np.array_equal(found[1:], model.store.vectors[1:])


def test_command_line_is_what_the_operator_writes() -> None:
    """The pod reads what the operator passes, the dimension included; another dimension ends with exit code 2."""
    from airflow_provider_ragops.operators.retriever import RetrieverTrainingPodOperator

    operator = RetrieverTrainingPodOperator(
        task_id="train", model=MODEL, experiment="rag", image="t:1", data_uri="runs:/r/t", data_digest="d1",
        partition="2026-11-29", cutoff="2026-11-29T00:00:00+00:00", epochs="3", batch_size="32",
        learning_rate="0.0003", seed="7", dimension="512",
    )  # fmt: skip
    read = parse_command(operator.command_line)
    assert read == arguments(("runs:/r/t", "d1"), dimension=512)
    assert operator.cmds == [] or operator.cmds is None
    with pytest.raises(SystemExit, match="2"):
        parse_command([*operator.command_line[:-1], "100"])


def test_a_missing_question_is_refused() -> None:
    """Null is no question "None": refused with the number of rows, and nothing is answered."""
    from airflow_provider_ragops.workloads.rag.pyfunc import RagModel

    model = RagModel()
    model.retriever = retriever(512)
    with pytest.raises(DataError, match="column 'query': expected a text in every row; saw 2 rows without"):
        model.predict(None, pd.DataFrame({"query": ["How do I pay?", None, float("nan")]}))


LOAD = """
import importlib.abc, json, sys

class Absent(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("airflow", "kubernetes", "transformers", "sentence_transformers"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
import mlflow, pandas
model = mlflow.pyfunc.load_model(sys.argv[1])
answers = model.predict(pandas.DataFrame({"query": ["What is the policy for overseas transfers?", "\\u6570\\u636e?"]}))
print(json.dumps({"modules": sorted(sys.modules), "answers": answers.to_dict("records")}))
"""


def test_it_loads_where_only_the_workloads_are(store: MlflowHook, pairs_logged: Data, tmp_path: Path) -> None:
    """In an image: no Airflow, no hub, no network; a fresh process loads the files and answers with sources."""
    import mlflow

    done = trained(store, pairs_logged)
    folder = mlflow.artifacts.download_artifacts(f"models:/{MODEL}/{done.version}", dst_path=str(tmp_path / "m"))
    package = Path(contract.__file__).parent
    image = tmp_path / "app" / "airflow_provider_ragops"
    image.mkdir(parents=True)
    for name in ("__init__.py", "contract.py", "exceptions.py", "workloads"):
        (image / name).symlink_to(package / name)
    script = tmp_path / "load.py"
    script.write_text(LOAD)
    env = {**os.environ, "PYTHONPATH": str(image.parent), "HF_HUB_OFFLINE": "1"}
    ended = subprocess.run(
        [sys.executable, script, folder], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=100,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    found = json.loads(ended.stdout.splitlines()[-1])
    assert not {"airflow", "kubernetes", "huggingface_hub"} & set(found["modules"])
    first, second = found["answers"]
    assert "Overseas transfers are processed within two to three business days." in first["answer"]
    assert json.loads(first["sources"])[0]["title"] == "Overseas transfers"
    assert second["answer"]
