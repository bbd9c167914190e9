"""Prometheus' own evaluator of rules: ``promtool`` from the PATH, else out of Debian's package, not installed."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

STEP = 15  # seconds between scrapes
#: What a PodMonitor attaches.
OWN = {"namespace": "ml-serving", "container": "mlflow-serve"}


def find_promtool(folder: Path) -> Path:
    """A skip where it is not here and no Debian could give it."""
    if found := shutil.which("promtool"):
        return Path(found)
    if not shutil.which("apt-get"):
        pytest.skip("promtool is not on the PATH, and there is no apt-get to fetch Debian's package prometheus")
    download = ["apt-get", "-qq", "download", "prometheus"]
    if subprocess.run(download, cwd=folder, capture_output=True, timeout=60).returncode:
        subprocess.run(["apt-get", "-qq", "update"], check=True, capture_output=True, timeout=100)
        subprocess.run(download, cwd=folder, check=True, capture_output=True, timeout=60)
    package = next(folder.glob("prometheus_*.deb"))
    subprocess.run(["dpkg-deb", "--extract", package, folder / "unpacked"], check=True, timeout=60)
    return folder / "unpacked" / "usr" / "bin" / "promtool"


def labelled(name: str, **labels: str) -> str:
    """``name{…}``, of this tier unless the labels say otherwise."""
    given = ", ".join(f'{key}="{value}"' for key, value in sorted((OWN | labels).items()))
    return f"{name}{{{given}}}"


@dataclass
class Scenario:
    """Series of a tier over time; minutes from its start."""

    promtool: Path
    folder: Path
    groups: list[dict[str, Any]]
    series: dict[str, str] = field(default_factory=dict)
    firing: list[dict[str, Any]] = field(default_factory=list)

    def add(self, name: str, *values: str, **labels: str) -> None:
        """``values`` in promtool's notation: ``0+3x40`` is 0, 3, 6 …; ``_x40`` nothing for 40 scrapes."""
        self.series[labelled(name, **labels)] = " ".join(values)

    def expect(self, minute: float, alert: str, *versions: str) -> None:
        """Which versions the alert fires for at that time, and no others."""
        name = f'ALERTS{{alertname="{alert}", alertstate="firing"}}'
        shared = {"alertname": alert, "alertstate": "firing", "severity": "critical", "model_name": "rag-retriever"}
        samples = [{"labels": labelled("ALERTS", **shared, model_version=one), "value": 1} for one in versions]
        self.firing.append({"expr": name, "eval_time": f"{round(minute * 60)}s", "exp_samples": samples})

    def disagreement(self) -> str:
        """What promtool saw instead; empty where all is as expected."""
        rules, test = self.folder / "rules.yaml", self.folder / "test.yaml"
        rules.write_text(yaml.safe_dump({"groups": self.groups}))
        series = [{"series": name, "values": values} for name, values in self.series.items()]
        one = {"interval": f"{STEP}s", "input_series": series, "promql_expr_test": self.firing}
        test.write_text(yaml.safe_dump({"rule_files": [rules.name], "evaluation_interval": f"{STEP}s", "tests": [one]}))
        ran = subprocess.run([self.promtool, "test", "rules", test], capture_output=True, text=True, timeout=60)
        return ran.stdout + ran.stderr if ran.returncode else ""
