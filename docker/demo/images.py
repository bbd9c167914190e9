"""The training and the serving image: named by the environment, else built and loaded into our cluster.

Run ``python -m demo.images``; the cluster is brought up first.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass

from demo import cluster as clusters
from demo.command import run
from demo.errors import DemoError
from demo.paths import CLUSTER_LOGS, IMAGES_ENV, ROOT

TRAINING = "RAGOPS_TRAINING_IMAGE"
SERVING = "RAGOPS_SERVING_IMAGE"
BUILD_DEADLINE = 30 * 60.0


@dataclass(frozen=True)
class Images:
    training: str
    serving: str


def ready(cluster: clusters.Cluster) -> Images:
    """Images that the cluster can start; builds and loads those that changed since they were built last.

    Nothing can be loaded into a cluster that is neither local nor kind's: there both variables must name images.

    :raises DemoError: when a build fails, or such a cluster's images are not named.
    """
    run(
        "images", [ROOT / "docker" / "images.sh", "training", "serving"], CLUSTER_LOGS / "images.log",
        deadline=BUILD_DEADLINE, env={"KUBECONFIG": str(cluster.kubeconfig), "PYTHON": sys.executable},
    )
    return _read()


def _read() -> Images:
    lines = (line.removeprefix("export ").partition("=") for line in IMAGES_ENV.read_text().splitlines())
    found = {name: value.strip("'\"") for name, _, value in lines}
    return Images(found[TRAINING], found[SERVING])


def main() -> None:
    began = time.monotonic()
    found = ready(clusters.up())
    print(f"images: {found.training}, {found.serving} ({time.monotonic() - began:.0f} s)")


if __name__ == "__main__":
    try:
        main()
    except DemoError as error:
        sys.exit(str(error))
