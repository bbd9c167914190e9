"""Where the demo keeps things; all below ``build``, so that removing it removes everything."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build"
DEMO = BUILD / "demo"
STATE = DEMO / "state"  # belongs to one cluster: databases, partitions, features
LOGS = DEMO / "logs"
CLUSTER_LOGS = BUILD / "logs"  # of what the demo and the tests share: bring-up and image builds
DATA = BUILD / "data"
SUMMARY = DEMO / "summary.json"
IMAGES_ENV = BUILD / "images.env"
