"""The registry's faults on a real MLflow server: lost replies, damaged artifacts, deleted and recreated models."""

from __future__ import annotations

import json
import logging
import os
import re
import threading
import uuid
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest

from airflow_provider_ragops import contract
from airflow_provider_ragops.contract import ServingTarget
from airflow_provider_ragops.exceptions import DataError, RegistryError, ReleaseRefusedError
from airflow_provider_ragops.hooks.mlflow import MlflowHook
from airflow_provider_ragops.operators.gate import QualityGateOperator
from airflow_provider_ragops.promotion.ledger import LedgerEntry
from airflow_provider_ragops.release.checks import require_releasable
from airflow_provider_ragops.release.record import ReleaseRecord
from airflow_provider_ragops.release.request import ReleaseRequest
from airflow_provider_ragops.workloads.environment import WorkloadEnvironment
from airflow_provider_ragops.workloads.evaluation.arguments import EvaluationArguments
from airflow_provider_ragops.workloads.evaluation.procedure import evaluate
from airflow_provider_ragops.workloads.training.arguments import TrainingArguments
from airflow_provider_ragops.workloads.training.parameters import TrainingParameters
from airflow_provider_ragops.workloads.training.procedure import registration_key, train
from tests.fakes.proxy import FaultyProxy
from tests.unit.workloads.training_sets import log_training_set, rows

CREATE = r"/model-versions/create"


class World:
    """One model of its own on the shared server: what its pods and its gate do."""

    def __init__(self, hook: MlflowHook, folder: Path) -> None:
        self.hook, self.folder = hook, folder
        self.model = f"Churn-{uuid.uuid4().hex[:8]}"
        self.data = log_training_set(hook, rows(1500, model=self.model), folder)

    def arguments(self, epochs: int = 1, partition: str = "2026-11-29") -> TrainingArguments:
        return TrainingArguments(
            self.model, "churn", *self.data, partition, "2026-08-31T00:00:00+00:00",
            TrainingParameters(epochs, 256, 0.01, 7),
        )  # fmt: skip

    def environment(self, attempt: str, uri: str = "") -> WorkloadEnvironment:
        return WorkloadEnvironment(uri or self.hook.tracking_uri, attempt, "training:1", "c0ffee")

    def train(self, attempt: str = "a1", uri: str = "", **work: Any) -> str:
        return train(self.arguments(**work), self.environment(attempt, uri)).version

    def evaluate(self, candidate: str, champion: str | None, uri: str = "") -> str:
        given = EvaluationArguments(self.model, candidate, champion, *self.data, "2026-11-29")
        return evaluate(given, self.environment("e1", uri))

    def gate(self, candidate: str, champion: str | None, run_id: str, **more: Any) -> tuple[str, dict[str, Any]]:
        """The branch that the gate chooses, and what it tells."""
        told: dict[str, Any] = {}
        operator = QualityGateOperator(
            task_id="gate", model=self.model, candidate=candidate, champion=champion, evaluation_run_id=run_id,
            follow_promote="release", follow_reject="alert", min_auc=0.5, non_inferiority_margin=0.5, **more,
        )  # fmt: skip
        context = {
            "ti": SimpleNamespace(xcom_push=lambda key, value: told.update({key: json.loads(json.dumps(value))})),
            "dag_run": SimpleNamespace(run_type="scheduled"),
        }
        branch = operator.choose_branch(context)  # type: ignore[arg-type]
        return str(branch), told["verdict"]

    def versions(self, **tags: str) -> list[str]:
        found = self.hook.registry().find(self.model, {getattr(contract, name): tags[name] for name in tags})
        return sorted((each.version for each in found), key=int)


@pytest.fixture
def world(mlflow_server: Any, tmp_path: Path) -> Iterator[World]:
    with mock.patch.dict(os.environ), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # MLflow's own, where models are logged and loaded
        os.environ["AIRFLOW_CONN_MLFLOW_DEFAULT"] = mlflow_server.uri.replace("http://", "mlflow://")
        os.environ["MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR"] = "0"
        os.environ["MLFLOW_HTTP_REQUEST_MAX_RETRIES"] = "2"
        yield World(MlflowHook(), tmp_path)


@pytest.fixture
def proxy(mlflow_server: Any) -> Iterator[FaultyProxy]:
    with FaultyProxy(mlflow_server.uri) as found:
        yield found


@pytest.mark.parametrize("fault", [{}, {"status": 503}], ids=["reply dropped", "503 after commit"])
def test_a_lost_reply_leaves_one_version_that_counts(
    world: World, proxy: FaultyProxy, fault: dict[str, Any], caplog: pytest.LogCaptureFixture,
    evidence: Counter[str],
) -> None:
    """M1: MLflow's client sends the creation again: two versions, one complete; the other is named; a retry reuses."""
    lost = proxy.fail("POST", CREATE, drop_reply=True, **fault)
    with caplog.at_level(logging.WARNING):
        version = world.train(uri=proxy.url)

    evidence["faults"] += 1
    key = registration_key(world.arguments(), world.environment("a1"))
    assert (lost.hits, proxy.count("POST", CREATE)) == (1, 2)
    assert world.versions(TAG_REGISTRATION_KEY=key) == ["1", "2"]
    assert world.versions(TAG_COMPLETED="a1") == [version] == ["2"]
    assert f"version 2 of {world.model} counts for registration key {key}; 1 carried it too" in caplog.text

    assert world.train("a2", uri=proxy.url) == version
    assert proxy.count("POST", CREATE) == 2
    assert world.hook.registry().alias(world.model, "champion") is None


def test_an_attempt_whose_replies_were_all_lost_counts_for_nothing(
    world: World, proxy: FaultyProxy, evidence: Counter[str]
) -> None:
    """M1: no reply ever came: the try fails, its versions never count, the next try makes the one that does."""
    lost = proxy.fail("POST", CREATE, drop_reply=True, times=None)
    with pytest.raises(Exception, match="model-versions/create"):
        world.train(uri=proxy.url)
    evidence["faults"] += lost.hits
    assert lost.hits == 3, "the first try and MLflow's two retries"
    assert world.versions(TAG_COMPLETED="a1") == []
    lost.cancel()

    assert world.train("a2", uri=proxy.url) == "4"
    assert world.versions(TAG_COMPLETED="a2") == ["4"]


def test_a_ledger_entry_whose_reply_was_lost_is_one(world: World, proxy: FaultyProxy) -> None:
    """M1: the reply to opening an entry was lost: two runs, one entry, and both are closed."""
    target = f"ml-serving/{world.model.lower()}"
    with mock.patch.dict(os.environ, AIRFLOW_CONN_MLFLOW_DEFAULT=proxy.url.replace("http://", "mlflow://")):
        ledger = MlflowHook().ledger()
    now = ledger._clock()
    proxy.fail("POST", r"/runs/create", drop_reply=True)

    ledger.open(LedgerEntry(world.model, target, world.model, None, "1", 3, "airflow", "", "", now))
    ledger.close(world.model, "released", "verified", 3)

    assert proxy.count("POST", r"/runs/create") == 2
    assert [(each.outcome, each.closed_token) for each in ledger.history(target)] == [("released", 3)]
    assert ledger.open_entries(target) == []


def test_many_register_at_once(world: World, evidence: Counter[str]) -> None:
    """M5: eight at once: distinct numbers, every one found again with its own tags, none lost."""
    client, count, rounds = world.hook.client(), 8, 3
    client.create_registered_model(world.model)
    run_id = world.hook.start_run("churn", "train", {})
    barrier = threading.Barrier(count)

    def register(number: int) -> dict[str, str]:
        barrier.wait(30)
        tags = [f"{number}-{turn}" for turn in range(rounds)]
        return {
            str(client.create_model_version(
                world.model, f"runs:/{run_id}/model", run_id, tags={contract.TAG_REGISTRATION_KEY: tag}
            ).version): tag
            for tag in tags
        }  # fmt: skip

    with ThreadPoolExecutor(count) as pool:
        answers = list(pool.map(register, range(count)))

    evidence["requests"] += count * rounds
    told = {version: tag for answer in answers for version, tag in answer.items()}
    assert sorted(map(int, told)) == list(range(1, count * rounds + 1))
    assert {version: world.hook.registry().version(world.model, version).tags for version in told} == {
        version: {contract.TAG_REGISTRATION_KEY: tag} for version, tag in told.items()
    }


def _files(world: World, version: str) -> Any:
    """The store of a version's files, over the server's artifact proxy."""
    from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository

    return get_artifact_repository(world.hook.client().get_model_version_download_uri(world.model, version))


def _missing(world: World, version: str) -> None:
    _files(world, version).delete_artifacts()


def _truncated(world: World, version: str) -> None:
    files = _files(world, version)
    largest = max((each for each in files.list_artifacts() if not each.is_dir), key=lambda each: each.file_size).path
    whole = Path(files.download_artifacts(largest, str(world.folder)))
    whole.write_bytes(whole.read_bytes()[:-7])
    files.log_artifact(str(whole))


@pytest.mark.parametrize("damage", [_missing, _truncated])
def test_a_ready_version_without_whole_files_never_reaches_a_lock(
    world: World, damage: Callable[[World, str], None], evidence: Counter[str]
) -> None:
    """M4: READY, but files missing or truncated: evaluation fails for good, the gate says no, the champion stays."""
    champion, candidate = world.train(epochs=1), world.train(epochs=2)
    world.hook.registry().set_alias(world.model, "champion", champion)
    damage(world, candidate)
    evidence["faults"] += 1
    assert world.hook.client().get_model_version(world.model, candidate).status == "READY"

    with pytest.raises((RegistryError, DataError), match=f"{world.model} version {candidate}: expected.*files"):
        world.evaluate(candidate, champion)

    failed = world.hook.find_run("churn", {contract.TAG_CANDIDATE: candidate, contract.TAG_DATA_DIGEST: world.data[1]})
    branch, told = world.gate(candidate, champion, failed.info.run_id)
    assert (branch, told["verdict"]) == ("alert", "not-enough-data")
    assert world.hook.registry().alias(world.model, "champion") == champion
    assert world.hook.registry().alias(world.model, "challenger") is None


def test_unreadable_files_are_no_verdict(world: World, proxy: FaultyProxy, evidence: Counter[str]) -> None:
    """M4: the server can't read the files now: the try fails in a way that may pass, and the next one succeeds."""
    candidate = world.train()
    broken = proxy.fail("GET", r"mlflow-artifacts/artifacts/.*/models/", times=None, status=500)

    with pytest.raises(Exception, match="500") as raised:
        world.evaluate(candidate, None, proxy.url)
    evidence["faults"] += broken.hits
    assert not isinstance(raised.value, DataError | RegistryError), "those are permanent"

    broken.cancel()
    branch, told = world.gate(candidate, None, world.evaluate(candidate, None, proxy.url))
    assert (branch, told["verdict"]) == ("release", "promote")


def test_a_deleted_champion_is_told(world: World) -> None:
    """M6: MLflow takes the alias away with the version: the ledger tells a lost champion from a first model."""
    registry, target = world.hook.registry(), ServingTarget(world.model.lower(), world.model)
    champion, candidate = world.train(epochs=1), world.train(epochs=2)
    registry.set_alias(world.model, "champion", champion)
    ledger = world.hook.ledger()
    ledger.open(LedgerEntry(world.model, target.slug, world.model, None, champion, 1, "", "", "", ledger._clock()))
    ledger.close(world.model, "released", "verified", 1)

    world.hook.client().delete_model_version(world.model, champion)

    assert registry.alias(world.model, "champion") is None
    gone = re.escape(f"version {champion} of model '{world.model}' at http://")
    with pytest.raises(RegistryError, match=f"{gone}.*expected a registered version; saw none: it was never"):
        registry.version(world.model, champion)
    branch, told = world.gate(candidate, None, world.evaluate(candidate, None), target=target)
    assert (branch, told["verdict"]) == ("alert", "not-enough-data")
    assert f"The champion has no version: its alias names none, but version {champion} was" in told["reasons"][0]
    with pytest.raises(RegistryError, match=f"{world.model} version {champion}: expected a registered version"):
        world.evaluate(candidate, champion)


def test_a_model_made_anew_is_another_model(world: World) -> None:
    """M7: deleted and registered again, it counts from 1: an evaluation of the old versions is not accepted."""
    registry, client = world.hook.registry(), world.hook.client()
    champion, candidate = world.train(epochs=1), world.train(epochs=2)
    old = registry.version(world.model, champion).run_id
    run_id = world.evaluate(candidate, champion)

    client.delete_registered_model(world.model)
    assert (world.train("b1", epochs=1), world.train("b2", epochs=2)) == (champion, candidate)
    assert registry.version(world.model, champion).run_id != old

    branch, told = world.gate(candidate, champion, run_id)
    assert (branch, told["verdict"]) == ("alert", "reject")
    assert "the registered model was deleted and made anew" in told["reasons"][0]
    again = world.gate(candidate, champion, world.evaluate(candidate, champion))
    assert again[0] == "release"
    tags = registry.version(world.model, candidate).tags
    assert tags[contract.TAG_GATE_CHAMPION_RUN] == registry.version(world.model, champion).run_id


def test_a_champion_that_moved_is_refused(world: World) -> None:
    """M2: the gate read champion 1; by the release 2 serves: refused with both numbers, no alias was written."""
    registry = world.hook.registry()
    first, second, candidate = world.train(epochs=1), world.train(epochs=2), world.train(epochs=3)
    registry.set_alias(world.model, "champion", first)
    branch, _ = world.gate(candidate, first, world.evaluate(candidate, first))
    assert branch == "release"

    registry.set_alias(world.model, "champion", second)
    judged = registry.version(world.model, candidate)
    with pytest.raises(ReleaseRefusedError, match=f"judged it against version {first}, but {second} is serving now"):
        require_releasable(
            judged, ReleaseRecord(world.model, to_version=second), ReleaseRequest(candidate, "r", "airflow", "")
        )
    assert registry.alias(world.model, "champion") == second


def test_an_older_run_that_finishes_late_is_stale(world: World) -> None:
    """M9: ordered by partition, not by finish: it takes no challenger's place, and its release is refused."""
    registry = world.hook.registry()
    champion = world.train(epochs=1)
    newer, older = world.train(epochs=2, partition="2026-11-29"), world.train(epochs=3, partition="2026-11-28")
    for candidate in (newer, older):
        assert world.gate(candidate, champion, world.evaluate(candidate, champion))[0] == "release"

    assert registry.alias(world.model, "challenger") == newer
    record = ReleaseRecord(world.model, to_version=champion, newest_partition="2026-11-29")
    stale = registry.version(world.model, older)
    with pytest.raises(ReleaseRefusedError, match="its partition 2026-11-28 is older than 2026-11-29"):
        require_releasable(stale, record, ReleaseRequest(older, "r", "airflow", ""))
