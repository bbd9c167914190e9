"""The runs of the demo: good partitions 30 days apart, one with a broken contract, one candidate of no use."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Any

from demo.airflow_api import AirflowApi, Run, States
from demo.errors import DemoError
from demo.paths import ROOT

DAG = "daily_churn_model_retraining"
RUN_DEADLINE = 20 * 60.0
DAYS_APART = 30
GOOD_RUNS = 2  # the bootstrap and one rolling update
UNDER_TRAINED = {"epochs": 1, "learning_rate": 1e-6}
FAULT = "negative-amount"
SHOWN = ("running", "success", "failed", "up_for_retry", "skipped")


@dataclass(frozen=True)
class Refusal:
    """A run that was meant to be refused, and was: by which task, and why."""

    what: str
    partition: str
    by: str
    reasons: list[str]


class Pipeline:
    """Triggers runs through Airflow's scheduler, one after the other: the DAG has one slot."""

    def __init__(self, api: AirflowApi, say: Callable[[str], None]) -> None:
        self._api = api
        self._say = say

    def train(self, day: date, **conf: Any) -> dict[str, Any]:
        """Run a partition to its end; the gate's verdict.

        :raises DemoError: naming the failed tasks and their reason, when the run did not end well.
        """
        done = self._run({"partition": day.isoformat(), **conf})
        if done.state != "success":
            raise DemoError(f"run of partition {day}: expected success; {self._why(done)}. See {self._api.link(done)}")
        verdict: dict[str, Any] = self._api.xcom(done, "gate", "verdict")
        self._say(f"  gate: {verdict['verdict']}: {' '.join(verdict['reasons'])}")
        return verdict

    def refuse_under_trained(self, day: date) -> Refusal:
        """Run a partition with a training that learns nothing; the gate must reject it and the run end well."""
        verdict = self.train(day, **UNDER_TRAINED)
        if verdict["verdict"] == "promote":
            raise DemoError(f"under-trained candidate {verdict['candidate']}: expected a rejection; it was promoted.")
        return Refusal("under-trained candidate", day.isoformat(), "gate", verdict["reasons"])

    def refuse_broken(self, day: date, location: Path, fault: str = FAULT) -> Refusal:
        """Run a partition that breaks its contract; validation must fail it.

        :param fault: one of ``churn.cdnow.FAULTS``.
        """
        with broken(location, day, fault):
            done = self._run({"partition": day.isoformat()})
        failed = [task for task, state in done.tasks.items() if state == "failed"]
        if failed != ["validate_contract"]:
            raise DemoError(f"broken partition {day}: expected validate_contract to fail; {self._why(done)}.")
        reason = self.reason(done, "validate_contract")
        self._say(f"  validate_contract: {reason}")
        return Refusal(f"contract broken ({fault})", day.isoformat(), "validate_contract", [reason])

    def reason(self, done: Run, task: str) -> str:
        """The message of the last error in the task's log."""
        for line in reversed(self._api.log(done, task)):
            if detail := line.get("error_detail"):
                return str(detail[0]["exc_value"])
        return "no error in its log"

    def _run(self, conf: dict[str, Any]) -> Run:
        for ahead in self._api.running(DAG):
            self._say(f"  waits for run {ahead.run_id}, which has the DAG's one slot: {self._api.link(ahead)}")
        run_id = self._api.trigger(DAG, conf, note="make demo")
        shown: States = {}

        def show(tasks: States) -> None:
            news = [f"{task} {state}" for task, state in tasks.items() if state != shown.get(task) and state in SHOWN]
            shown.update(tasks)
            if news:
                self._say(f"  {', '.join(news)}")

        return self._api.wait(DAG, run_id, deadline=RUN_DEADLINE, progress=show)

    def _why(self, done: Run) -> str:
        failed = [task for task, state in done.tasks.items() if state == "failed"]
        return f"it is {done.state}, {'; '.join(f'{task}: {self.reason(done, task)}' for task in failed) or done.tasks}"




def good_days(days: list[date], runs: int = GOOD_RUNS) -> list[date]:
    """The newest day and those 30 days apart before it, oldest first."""
    return [days[-1] - timedelta(days=DAYS_APART * back) for back in reversed(range(runs))]


@contextmanager
def broken(location: Path, day: date, fault: str) -> Iterator[None]:
    """Break one partition for as long as the block lasts: later runs read it as history."""
    _cdnow().break_partition(location, day, fault)
    try:
        yield
    finally:
        mend(location, day)


def mend(location: Path, day: date) -> None:
    """Put the good partition back, also after a demo that was killed in between."""
    _cdnow().mend_partition(location, day)


def _cdnow() -> Any:
    if (dags := str(ROOT / "dags")) not in sys.path:
        sys.path.insert(0, dags)
    from churn import cdnow

    return cdnow
