"""Which partition a run gets, for every way in which Airflow starts a run."""

from __future__ import annotations

from datetime import datetime, timedelta
from types import SimpleNamespace

import pendulum
import pytest
from airflow.sdk.exceptions import AirflowFailException
from airflow.timetables.base import TimeRestriction
from airflow.timetables.trigger import CronPartitionTimetable, CronTriggerTimetable

from airflow_provider_ragops.contract import UTC
from airflow_provider_ragops.exceptions import PartitionError
from airflow_provider_ragops.operators.partition import PartitionResolveOperator, resolve

NOW = datetime(2026, 11, 30, 2, 0, 5, tzinfo=UTC)
TIMETABLE = CronPartitionTimetable("0 2 * * *", timezone="UTC", run_offset=-1, key_format="%Y-%m-%d")


def run(key: str | None = None, kind: str = "scheduled") -> SimpleNamespace:
    return SimpleNamespace(partition_key=key, run_type=kind)


def test_scheduled_run_of_the_partition_timetable() -> None:
    """The run at 02:00 of the 30th works on the 29th, the last day that is over."""
    start = pendulum.datetime(2026, 11, 30)
    info = TIMETABLE.next_dagrun_info_v2(
        last_dagrun_info=None, restriction=TimeRestriction(earliest=start, latest=None, catchup=True)
    )
    assert info is not None
    assert info.run_after == start.add(hours=2)
    assert resolve({"dag_run": run(info.partition_key)}, None, NOW).key == "2026-11-29"


def test_backfill_of_the_partition_timetable() -> None:
    """A backfill of two days makes two runs, each with its own day as key."""
    infos = TIMETABLE.iter_partition_dagrun_infos(
        earliest=pendulum.datetime(2026, 11, 20), latest=pendulum.datetime(2026, 11, 22)
    )
    keys = [resolve({"dag_run": run(info.partition_key, "backfill")}, "None", NOW).key for info in infos]
    assert keys == ["2026-11-20", "2026-11-21"]


def test_manual_run_with_the_default_date() -> None:
    """A plain cron timetable gives a manual run an empty interval: an error that says so, no guess."""
    plain = CronTriggerTimetable("0 2 * * *", timezone="UTC")
    interval = plain.infer_manual_data_interval(run_after=pendulum.datetime(2026, 11, 30, 2))
    context = {"dag_run": run(kind="manual"), "data_interval_start": interval.start, "data_interval_end": interval.end}
    assert interval.start == interval.end
    with pytest.raises(PartitionError, match="expected midnight UTC; saw 02:00:00"):
        resolve(context, "None", NOW)
    midnight = pendulum.datetime(2026, 11, 29)
    with pytest.raises(PartitionError, match=r"zero or negative length.*set its timetable explicitly"):
        resolve({"data_interval_start": midnight, "data_interval_end": midnight}, "", NOW)


def test_manual_run_without_a_logical_date() -> None:
    """Without a logical date the interval's keys are missing: the error asks for the param."""
    with pytest.raises(PartitionError, match="no param, no partition key and no data interval"):
        resolve({"dag_run": run(kind="manual")}, "None", NOW)
    assert resolve({"dag_run": run(kind="manual")}, "2026-11-20", NOW).key == "2026-11-20"


def test_whole_day_interval() -> None:
    """A timetable with daily data intervals needs no key."""
    day = datetime(2026, 11, 28, tzinfo=UTC)
    context = {"dag_run": run(), "data_interval_start": day, "data_interval_end": day + timedelta(days=1)}
    assert resolve(context, None, NOW).key == "2026-11-28"


@pytest.mark.parametrize("empty", [None, "", "None", " "])
def test_empty_param(empty: str | None) -> None:
    """An empty form field, however it was rendered, is no request."""
    assert resolve({"partition_key": "2026-11-29"}, empty, NOW).key == "2026-11-29"


def test_operator_returns_key_and_bounds() -> None:
    """XCom carries key, start and end; a future partition fails without retry."""
    operator = PartitionResolveOperator(task_id="partition", partition="2025-11-20_2025-11-21")
    found = operator.execute({"dag_run": run()})
    assert found == {
        "key": "2025-11-20_2025-11-21", "start": "2025-11-20T00:00:00+00:00", "end": "2025-11-22T00:00:00+00:00",
    }
    operator.partition = "2999-01-01"
    with pytest.raises(AirflowFailException, match="partition 2999-01-01: expected whole days that have ended"):
        operator.execute({"dag_run": run()})
