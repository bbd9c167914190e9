from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import airflow
import jsonschema
import pytest

import airflow_provider_ragops
from airflow_provider_ragops.get_provider_info import get_provider_info

ROOT = Path(airflow_provider_ragops.__file__).parents[1]
AIRFLOW = Path(airflow.__file__).parent
# What the extras bring; and what comes along with them, where a light install has none of it.
ABSENT = (
    "duckdb", "fastapi", "feast", "mlflow", "numpy", "pandas", "pandera", "polars", "pyarrow", "redis", "sklearn",
    "torch",
)  # fmt: skip

LIGHT_INSTALL = """
import importlib, importlib.abc, json, sys

class Absent(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {absent!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Absent())
"""

IMPORT_ALL = """
import airflow_provider_ragops
from airflow_provider_ragops.get_provider_info import get_provider_info

info = get_provider_info()
parts = [part for kind in ("operators", "sensors", "hooks", "triggers") for part in info[kind]]
names = [name for part in parts for name in part["python-modules"]]
for name in names:
    importlib.import_module(name)
classes = [each["hook-class-name"] for each in info["connection-types"]] + info["extra-links"] + info["notifications"]
for path in classes:
    module, _, name = path.rpartition(".")
    getattr(importlib.import_module(module), name)
print(json.dumps({"from": airflow_provider_ragops.__file__, "modules": names}))
"""

USE = """
from airflow_provider_ragops.operators.gate import QualityGateOperator
from airflow_provider_ragops.operators.materialization import FeastMaterializeOperator
from airflow_provider_ragops.operators.validation import ContractValidateOperator

gate = QualityGateOperator(
    task_id="gate", model="M", candidate="1", champion=None, evaluation_run_id="r",
    follow_promote="a", follow_reject="b")
validate = ContractValidateOperator(
    task_id="validate", schema="churn.contract:transactions", location="/nowhere", partition="2026-11-29",
    experiment="e")
online = FeastMaterializeOperator(task_id="online", feature_views=["v"], partition="2026-11-29", repo=".")
told = {}
for name, call in (
    ("gate", gate._evaluation), ("validate", validate._check),
    ("online", lambda: online.execute.__wrapped__(online, {})),
):
    try:
        call()
    except Exception as error:
        told[name] = f"{type(error).__name__}: {error}"
print(json.dumps(told))
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built and unpacked as an installation does: package and metadata, nothing else of this checkout."""
    wheels, site = tmp_path_factory.mktemp("wheels"), tmp_path_factory.mktemp("site")
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", wheels], cwd=ROOT, check=True,
                   capture_output=True, timeout=60)  # fmt: skip
    (wheel,) = wheels.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    return site


def _run(installed: Path, *command: str) -> str:
    """Run where the wheel's package comes before the checkout's; return the last line of output."""
    environment = os.environ | {
        "PYTHONPATH": f"{installed}{os.pathsep}{ROOT / 'dags'}",
        "AIRFLOW_CONN_MLFLOW_DEFAULT": "mlflow://127.0.0.1:9",
        "AIRFLOW_CONN_FEAST_DEFAULT": json.dumps(
            {"conn_type": "feast", "extra": {"redis_url": "redis://127.0.0.1:9", "registry_url": "sqlite://"}}
        ),
    }
    done = subprocess.run(command, cwd=installed, env=environment, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip().splitlines()[-1]


def _light(installed: Path, script: str) -> dict[str, object]:
    found: dict[str, object] = json.loads(
        _run(installed, sys.executable, "-c", LIGHT_INSTALL.format(absent=ABSENT) + script)
    )
    return found


def test_every_module_imports_without_the_extras(installed: Path) -> None:
    """Installed alone, without MLflow, Feast, Pandera, pandas and the rest, every listed module imports."""
    found = _light(installed, IMPORT_ALL)

    assert Path(str(found["from"])).is_relative_to(installed)
    assert len(found["modules"]) > 15  # type: ignore[arg-type]


def test_a_missing_extra_is_named(installed: Path) -> None:
    """An operator whose library is not installed says which extra to install."""
    told = _light(installed, USE)

    assert "airflow-provider-ragops[mlflow]" in str(told["gate"])
    assert "airflow-provider-ragops[pandera]" in str(told["validate"])
    assert "airflow-provider-ragops[redis]" in str(told["online"])


def test_airflow_lists_the_provider(installed: Path) -> None:
    """``airflow providers list`` shows name, version and description of the wheel."""
    airflow_command = str(Path(sys.executable).with_name("airflow"))
    providers = json.loads(_run(installed, airflow_command, "providers", "list", "--output", "json"))

    (ours,) = [each for each in providers if each["package_name"] == "airflow-provider-ragops"]
    assert ours["version"] == airflow_provider_ragops.__version__
    assert "releases it safely" in ours["description"]


@pytest.mark.parametrize("schema", ["provider_info.schema.json", "provider.yaml.schema.json"])
def test_the_description_is_what_airflow_asks_for(schema: str) -> None:
    """Airflow's own schemas accept it: the one for installed providers, and the forms' part of the stricter one."""
    rules = json.loads((AIRFLOW / schema).read_text())
    info = get_provider_info()
    if schema == "provider_info.schema.json":
        jsonschema.validate(info, rules)
    else:
        jsonschema.validate(info["connection-types"], rules["properties"]["connection-types"])


def _defined(kind: str, suffix: str) -> Iterator[str]:
    for file in (ROOT / "airflow_provider_ragops" / kind).glob("*.py"):
        classes = [node.name for node in ast.parse(file.read_text()).body if isinstance(node, ast.ClassDef)]
        if any(name.endswith(suffix) and not name.startswith("_") for name in classes):
            yield f"airflow_provider_ragops.{kind}.{file.stem}"


@pytest.mark.parametrize(
    ("kind", "suffix"), [("operators", "Operator"), ("sensors", "Sensor"), ("hooks", "Hook"), ("triggers", "Trigger")]
)
def test_nothing_is_left_out_of_the_list(kind: str, suffix: str) -> None:
    """Every module that defines an operator, sensor, hook or trigger is in the one list, and nothing else is."""
    (listed,) = get_provider_info()[kind]

    assert sorted(listed["python-modules"]) == sorted(_defined(kind, suffix))


def test_the_root_imports_nothing() -> None:
    """Discovery runs before Airflow is configured: package and description import no module of anybody else's."""
    script = (
        "import sys; before = set(sys.modules); import airflow_provider_ragops.get_provider_info;"
        "print(*{name.partition('.')[0] for name in set(sys.modules) - before} - sys.stdlib_module_names)"
    )
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=60)

    assert done.stdout.split() == ["airflow_provider_ragops"]
