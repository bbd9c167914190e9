"""``python -m demo up | down``: the whole loop on real parts, from nothing to a served champion."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from datetime import timedelta
from pathlib import Path
from types import FrameType

from urllib3.exceptions import HTTPError

from demo import access, data, pipeline, services, world
from demo import cluster as clusters
from demo import images as image_builds
from demo.airflow_api import AirflowApi
from demo.errors import DemoError
from demo.inspection import World
from demo.paths import CLUSTER_LOGS, LOGS
from demo.pipeline import Pipeline, Refusal
from demo.progress import Progress
from demo.settings import Settings
from demo.summary import collect, faults, tell, write


class Demo:
    """The steps in order. ``started`` is False as long as a failure should undo what this run brought up."""

    def __init__(self, progress: Progress) -> None:
        self.progress = progress
        self.started = False
        self.state_found = world.found()
        self.cluster_found = clusters.ours() is not None

    def up(self) -> None:
        step = self.progress.step
        with step("cluster", f"the first time it compiles Kubernetes, 4 to 10 minutes; log {CLUSTER_LOGS}/cluster.log"):
            cluster = clusters.up()
            self.state_found = not world.enter(cluster)
            self.settings = Settings.of(cluster)
        with step("images", f"training and serving, 4 minutes the first time; log {CLUSTER_LOGS}/images.log"):
            self.images = image_builds.ready(self.settings.tier.cluster)
        with step("services", f"MLflow, Redis, Airflow; logs {LOGS}"):
            self._start_services()
        with step("serving", "the chart of the serving tier"):
            self.settings.tier.install(self.images, self.settings.mlflow_uri)
            access.write_kubeconfig(self.settings.tier, self.settings.airflow_kubeconfig)
        with step("data", "real purchases of 23,570 customers, one folder a day"):
            self.days = data.partitions(self.settings.data)
        self.started = True

    def _start_services(self) -> None:
        settings, background = self.settings, world.background()
        if settings.exposure:
            self.progress.say(f"  warning: {settings.exposure}")
        for service in (settings.mlflow(), settings.redis(), settings.airflow(self.images)):
            if service is None:
                self.progress.say(f"  redis: {settings.redis_url.rpartition('@')[2]}, from REDIS_URL")
                continue
            fresh = background.start(service)
            self.progress.say(f"  {service.name}: {'started' if fresh else 'already up'}, {service.address}")
        password = services.admin_password(settings.airflow_home)
        self.api = AirflowApi(settings.airflow(self.images).address, "admin", password)
        self.api.unpause(pipeline.DAG)

    def run(self) -> list[Refusal]:
        """Train and release the good partitions that are newer than what is served, then the two to be refused."""
        runs = Pipeline(self.api, self.progress.say)
        days = pipeline.good_days(self.days)
        released = World(self.settings).newest_partition()
        bad_day = days[-1] - timedelta(days=7)
        pipeline.mend(self.settings.data, bad_day)
        for day in days:
            # An older partition than the released one can't be released any more. The newest runs again: it must
            # find its own version and change nothing.
            if day.isoformat() < released and day != days[-1]:
                self.progress.say(f"run {day}: released earlier")
                continue
            with self.progress.step(f"run {day}", "train, judge, release"):
                runs.train(day)
        with self.progress.step("refuse contract", f"partition {bad_day} with a broken contract"):
            contract = runs.refuse_broken(bad_day, self.settings.data)
        with self.progress.step("refuse candidate", "one epoch with a tiny learning rate"):
            candidate = runs.refuse_under_trained(days[-1])
        return [contract, candidate]

    def report(self, refusals: list[Refusal]) -> None:
        with self.progress.step("summary", "asking MLflow, the Deployment, each pod and Redis"):
            found = World(self.settings)
            user = data.any_user(self.settings.features, pipeline.good_days(self.days)[-1])
            summary = collect(found, refusals, user, self.progress.seconds)
        write(summary)
        password = f"(user admin, password in {self.settings.airflow_home}/passwords.json)"
        shell = self.settings.write_shell_environment(self.images)
        tell(summary, {
            "Airflow": f"{self.api.address} {password}", "MLflow": self.settings.mlflow_uri,
            "For the commands airflow and kubectl": f". {shell} (airflow itself is in {Path(sys.executable).parent})",
        })
        if wrong := faults(summary):
            raise DemoError("demo: not everything fits: " + "; ".join(wrong))


def up(venv_seconds: float) -> int:
    progress = Progress()
    progress.seconds["venv"] = venv_seconds
    demo = Demo(progress)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    try:
        demo.up()
        demo.report(demo.run())
    except (DemoError, HTTPError) as error:
        silent = "" if isinstance(error, DemoError) else "the cluster's API server does not answer as it should: "
        print(f"\n{silent}{error}", file=sys.stderr)
        if demo.started:
            print("Services were left up, to look into it: make demo-down ends them.", file=sys.stderr)
        elif demo.state_found:
            print("What an earlier run left was not removed: make demo-down ends it.", file=sys.stderr)
        else:
            down(progress, cluster=not demo.cluster_found)
        return 1
    except KeyboardInterrupt:
        progress.say("interrupted: ending everything")
        down(progress)
        return 130
    return 0


def down(progress: Progress, *, cluster: bool = True) -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    said: list[str] = []

    def say(text: str) -> None:
        said.append(text)
        progress.say(text)

    world.leave(say, cluster=cluster)
    if not said:
        progress.say("nothing was up")


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def main() -> int:
    parser = argparse.ArgumentParser(prog="demo")
    parser.add_argument("action", choices=["up", "down"])
    parser.add_argument("--venv-seconds", type=float, default=0.0)
    arguments = parser.parse_args()
    if arguments.action == "up":
        return up(arguments.venv_seconds)
    try:
        down(Progress())
    except DemoError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    os.environ.update(services.QUIET)
    sys.exit(main())
