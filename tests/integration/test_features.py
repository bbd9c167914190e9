"""The data steps of the pipeline through their operators, with a real Feast, Redis server and MLflow server."""

from __future__ import annotations

import json
import shutil
import uuid
from collections.abc import Callable, Iterator
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import redis
from airflow.sdk.exceptions import AirflowFailException
from churn import cdnow
from churn.features.daily import FEATURES

from airflow_provider_ragops.contract import Partition, file_digest, split_of
from airflow_provider_ragops.exceptions import MaterializationError
from airflow_provider_ragops.features.training_set import Observations
from airflow_provider_ragops.hooks.mlflow import MlflowHook
from airflow_provider_ragops.operators.features import FeatureSnapshotOperator
from airflow_provider_ragops.operators.materialization import FeastMaterializeOperator
from airflow_provider_ragops.operators.training_set import TrainingSetBuildOperator
from airflow_provider_ragops.operators.validation import ContractValidateOperator
from tests.fakes import purchases

# Feast calls ibis, which calls a method that DuckDB is about to rename.
pytestmark = pytest.mark.filterwarnings("ignore:fetch_arrow_table:DeprecationWarning")

REPO = Path(__file__).parents[2] / "dags" / "churn" / "features"
VIEW = "user_financial_features"
MODEL = "CustomerChurnPredictor"
KEY = purchases.LAST.key
EARLIER = "2026-09-05"
OBSERVED = Observations(horizon=timedelta(days=30), window=timedelta(days=14))


class World:
    """One test's own data, registry, Redis database and MLflow experiment."""

    def __init__(self, folder: Path, redis_url: str) -> None:
        self.location = folder / "transactions"
        self.features = folder / "features"
        self.registry = folder / "registry.db"
        self.experiment = f"churn-{uuid.uuid4().hex[:8]}"
        self.redis_url = redis_url
        self.redis = redis.Redis.from_url(redis_url)
        self.common = {"location": str(self.location), "experiment": self.experiment}

    def validate(self, key: str = KEY) -> dict[str, Any]:
        operator = ContractValidateOperator(
            task_id="validate", schema="churn.contract:transactions", partition=key, **self.common
        )
        return operator.execute({})

    def snapshot(self, key: str = KEY, days: int = 70) -> dict[str, Any]:
        operator = FeatureSnapshotOperator(
            task_id="features", query="churn.features.daily:QUERY", location=str(self.location),
            features_location=str(self.features), partition=key, history_days=days,
        )
        return operator.execute({})

    def materialize(self, key: str = KEY, view: str = VIEW) -> dict[str, Any]:
        operator = FeastMaterializeOperator(task_id="materialize", feature_views=[view], partition=key)
        return operator.execute({})[0]

    def training_set(self, key: str = KEY, observed: Observations | None = OBSERVED) -> dict[str, Any]:
        operator = TrainingSetBuildOperator(
            task_id="training_set", model=MODEL, feature_view=VIEW, partition=key, observations=observed, **self.common
        )
        return dict(operator.execute({}))

    def artifact(self, run_id: str, path: str, folder: Path) -> Path:
        return Path(MlflowHook().client().download_artifacts(run_id, path, str(folder)))

    def runs(self) -> list[Any]:
        client = MlflowHook().client()
        experiment = client.get_experiment_by_name(self.experiment)
        return list(client.search_runs([experiment.experiment_id])) if experiment else []

    def state(self) -> str:
        """Everything in the online store."""
        return repr(sorted((key, sorted(self.redis.hgetall(key).items())) for key in self.redis.scan_iter()))


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return purchases.write(tmp_path_factory.mktemp("transactions"))


@pytest.fixture
def make(redis_server: Any, mlflow_server: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Path], World]]:
    worlds: list[World] = []

    def start(folder: Path) -> World:
        world = World(folder, redis_server.url)
        monkeypatch.setattr("churn.settings.FEATURES_LOCATION", str(world.features))
        extra = {"repo": str(REPO), "registry_url": f"sqlite:///{world.registry}", "redis_url": world.redis_url}
        monkeypatch.setenv("AIRFLOW_CONN_FEAST_DEFAULT", json.dumps({"conn_type": "feast", "extra": extra}))
        mlflow = {"conn_type": "mlflow", "host": mlflow_server.uri}
        monkeypatch.setenv("AIRFLOW_CONN_MLFLOW_DEFAULT", json.dumps(mlflow))
        world.redis.flushdb()
        worlds.append(world)
        return world

    yield start
    for world in worlds:
        world.redis.flushdb()
        world.redis.close()


@pytest.fixture
def world(make: Callable[[Path], World], written: Path, tmp_path: Path) -> World:
    shutil.copytree(written, tmp_path / "transactions")
    return make(tmp_path)


def test_contract_report_is_kept(world: World, tmp_path: Path) -> None:
    """The report is one MLflow run per partition, found again by a rerun, with the verdict as its status."""
    first, second = world.validate(), world.validate()
    assert first == second
    cdnow.break_partition(world.location, purchases.LAST.start.date(), "wrong-type")
    with pytest.raises(AirflowFailException, match=r"partition 2026-09-08: .*amount: dtype\('float64'\) failed 1 time"):
        world.validate()
    (run,) = world.runs()
    tags = run.data.tags
    assert (run.info.status, tags["ragops.kind"], tags["ragops.partition"]) == ("FAILED", "contract", KEY)
    report = json.loads(world.artifact(run.info.run_id, "contract/report.json", tmp_path).read_text())
    assert report["passed"] is False
    assert report["failures"][0] == {
        "column": "amount", "check": "dtype('float64')", "count": 1, "examples": ["object"],
    }
    cdnow.mend_partition(world.location, purchases.LAST.start.date())
    world.validate()
    assert [run.info.status for run in world.runs()] == ["FINISHED"]


def test_missing_partition_leaves_no_report(world: World) -> None:
    """A partition that is not there fails before anything is written."""
    with pytest.raises(AirflowFailException, match=r"partition 2026-09-30 .*no \*\.parquet"):
        world.validate("2026-09-30")
    assert world.runs() == []


def test_materialization_writes_exactly_the_partition(world: World) -> None:
    """F12: every customer's row is online with the snapshot's values; one snapshot is written, not the day before."""
    world.snapshot()
    snapshot = pd.read_parquet(world.features / f"date={KEY}" / "features.parquet")
    report = world.materialize()
    assert report == {"view": VIEW, "partition": KEY, "rows": len(snapshot), "checked": len(snapshot),
                      "equal": len(snapshot), "kept_newer": 0}
    assert world.redis.dbsize() == len(snapshot)


def test_repeated_and_backfilled(world: World) -> None:
    """F1: a rerun changes nothing; an older partition does not put the newer rows back; both orders end alike."""
    world.snapshot()
    world.materialize(EARLIER)
    world.materialize()
    state = world.state()
    assert world.materialize()["kept_newer"] == 0
    assert world.state() == state
    older = world.materialize(EARLIER)
    assert (older["kept_newer"], older["equal"]) == (older["checked"], 0)
    assert world.state() == state
    world.redis.flushdb()
    world.materialize()
    world.materialize(EARLIER)
    assert world.state() == state


def test_correction_is_not_lost_in_silence(world: World) -> None:
    """F6: Feast never overwrites a row of the same event time; the read-back says so, with both values."""
    world.snapshot()
    world.materialize()
    row = purchases.purchases()[purchases.LAST.start.date()][0]
    cdnow.write_day(world.location, purchases.LAST.start.date(), [{**row, "amount": 999.0}])
    world.snapshot()
    told = rf"online row user_id=\d+ of feature view {VIEW}: expected \w+=[\d.]+ as in the snapshot; saw \w+=[\d.]+\."
    with pytest.raises(MaterializationError, match=told):
        world.materialize()


def test_lost_write_is_found(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """F7: a materialization whose rows did not arrive fails, and a rerun puts it right."""
    world.snapshot()
    with monkeypatch.context() as patch:
        patch.setattr("feast.FeatureStore.materialize", lambda *args, **options: None)
        with pytest.raises(MaterializationError, match=r"expected known_at=\d+ as in the snapshot; saw known_at=None"):
            world.materialize()
    assert world.materialize()["equal"] > 0


def test_nothing_to_materialize(world: World) -> None:
    """F4: an interval without rows is an error, and so is a view that nobody defined."""
    world.snapshot(EARLIER)
    with pytest.raises(AirflowFailException, match=f"feature view {VIEW}, partition {KEY}: expected at least one row"):
        world.materialize()
    with pytest.raises(AirflowFailException, match=f"feature view nosuch: expected one of {VIEW}; saw no such view"):
        world.materialize(EARLIER, view="nosuch")


def test_training_set_equals_a_search_by_hand(world: World, tmp_path: Path) -> None:
    """Every row holds the newest snapshot that was written by its observation time; splits follow the entity."""
    world.snapshot()
    world.materialize()
    result = world.training_set()
    path = world.artifact(result["run_id"], "training_set/training_set.parquet", tmp_path)
    frame = pd.read_parquet(path)
    assert list(frame) == ["user_id", "event_timestamp", *FEATURES, "churned", "split"]
    assert (file_digest(path), len(frame)) == (result["digest"], result["rows"])
    assert result["uri"] == f"runs:/{result['run_id']}/training_set/training_set.parquet"
    assert pd.Timestamp(result["cutoff"]) == frame["event_timestamp"].max()
    assert (frame["split"] == [split_of(MODEL, str(user)) for user in frame["user_id"]]).all()
    assert set(frame["churned"]) == {0, 1}
    for time, rows in frame.groupby("event_timestamp"):
        snapshot = pd.read_parquet(world.features / f"date={(time - timedelta(days=2)).date()}" / "features.parquet")
        assert (snapshot["created_timestamp"] <= time).all()
        truth = snapshot.set_index("user_id").loc[rows["user_id"], list(FEATURES)]
        pd.testing.assert_frame_equal(truth, rows.set_index("user_id")[list(FEATURES)], check_exact=True)
    verdict = json.loads(world.artifact(result["run_id"], "training_set/verdict.json", tmp_path).read_text())
    assert (verdict["null_rows"], verdict["leakage"]["leaks"], verdict["rows"]) == (0, False, len(frame))


def test_training_set_is_kept_once(world: World) -> None:
    """Built again, even from a new registry, the same content is the same run and digest."""
    world.snapshot()
    world.materialize()
    first = world.training_set()
    world.registry.unlink()
    world.materialize()
    assert world.training_set() == first
    (run,) = world.runs()
    assert (run.info.status, run.data.tags["ragops.kind"]) == ("FINISHED", "training-set")


def test_interrupted_upload_is_completed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A try that died before the upload leaves a run that is no proof; the next try completes the same one."""
    world.snapshot()
    world.materialize()
    with monkeypatch.context() as patch:
        patch.setattr("mlflow.MlflowClient.log_artifact", _die)
        with pytest.raises(KeyboardInterrupt):
            world.training_set()
    (started,) = world.runs()
    assert started.info.status == "RUNNING"
    result = world.training_set()
    assert result["run_id"] == started.info.run_id
    assert [run.info.status for run in world.runs()] == ["FINISHED"]


def _die(*args: object, **options: object) -> None:
    raise KeyboardInterrupt


def test_leaking_join_is_refused(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the filter on creation times the join takes values two hours too young: no training set comes of it."""
    import feast

    world.snapshot()
    world.materialize()
    real = feast.FeatureStore.get_historical_features

    def unfiltered(self: Any, **options: Any) -> Any:
        return real(self, **{**options, "filter_by_created_timestamp": False})

    monkeypatch.setattr(feast.FeatureStore, "get_historical_features", unfiltered)
    with pytest.raises(AirflowFailException, match=r"expected only values known at each observation time; saw .*later"):
        world.training_set()
    assert world.runs() == []


def test_too_few_snapshots(world: World) -> None:
    """More than 5 % rows without values fail, with the setting to raise."""
    world.snapshot(days=25)
    world.materialize()
    told = r"at most 5% rows with a null feature; saw 100\.0%\. Raise history_days"
    with pytest.raises(AirflowFailException, match=told):
        world.training_set()


def test_real_purchases(make: Callable[[Path], World], cdnow_wheel: Path, tmp_path: Path) -> None:
    """On the real purchases all steps pass, twice alike, and the features tell who will stay away (AUC above 0.8)."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import roc_auc_score
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    world = make(tmp_path)
    last = cdnow.write_partitions(cdnow_wheel, world.location, date(2026, 11, 29))[-1]
    key = Partition.of_day(last).key
    assert world.validate(key)["rows"] == 58
    assert world.snapshot(key, days=180)["rows"] == 180 * 23_570
    assert world.materialize(key)["rows"] == 23_570
    result = world.training_set(key, observed=None)
    assert result["rows"] == 5 * 23_570
    assert world.training_set(key, observed=None) == result
    frame = pd.read_parquet(world.artifact(result["run_id"], "training_set/training_set.parquet", tmp_path))
    train, held_out = (frame[frame["split"] == side] for side in ("train", "held_out"))
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=500))
    model.fit(train[list(FEATURES)], train["churned"])
    assert roc_auc_score(held_out["churned"], model.predict_proba(held_out[list(FEATURES)])[:, 1]) > 0.8
