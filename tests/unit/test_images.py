"""What the images are built from: the releases that the tests run, and nothing of the building machine."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name

import airflow_provider_ragops

ROOT = Path(airflow_provider_ragops.__file__).parents[1]
REQUIREMENTS = sorted((ROOT / "docker").glob("requirements-*.txt"))


def pins(file: Path) -> dict[str, str]:
    """Package to version; an empty version where a line pins none exactly."""
    lines = (line.partition("#")[0].strip() for line in file.read_text().splitlines())
    parts = (line.partition("==") for line in lines if line)
    return {canonicalize_name(name): version for name, _, version in parts}


@pytest.mark.parametrize("file", REQUIREMENTS, ids=lambda file: file.stem)
def test_images_install_the_releases_that_the_tests_run(file: Path) -> None:
    """Every requirement of an image is pinned, and to the version in constraints.txt."""
    tested = pins(ROOT / "constraints.txt")
    found = pins(file)
    assert found
    assert found == {name: tested.get(name) for name in found}


def test_a_build_sees_local_wheels_and_no_path_of_this_machine(tmp_path: Path) -> None:
    """Local directories and indices are mounted under other names, an index with the files beside it; URLs stay."""
    wheels, index = tmp_path / "my wheels", tmp_path / "index" / "simple"
    wheels.mkdir()
    index.mkdir(parents=True)
    carried = runpy.run_path(str(ROOT / "docker" / "images" / "pip_settings.py"))["carried"]
    body, mounts = carried({
        "find-links": f"{wheels.as_uri()} https://example.org/wheels",
        "index-url": index.as_uri(),
        "constraint": "/not/there.txt",
    })
    assert mounts == {wheels: "/mnt/pip/0", index.parent: "/mnt/pip/1"}
    assert body.splitlines() == [
        "[global]",
        "constraint = /not/there.txt",
        "find-links = file:///mnt/pip/0 https://example.org/wheels",
        "index-url = file:///mnt/pip/1/simple",
    ]
