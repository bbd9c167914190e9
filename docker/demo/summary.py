"""The end of the demo: one value from what was seen, written as JSON and told to a person."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from demo.errors import DemoError
from demo.inspection import World
from demo.paths import LOGS, SUMMARY
from demo.pipeline import Refusal

Summary = dict[str, Any]


def collect(world: World, refusals: list[Refusal], user: int, seconds: dict[str, float]) -> Summary:
    """Everything that the demo shows. ``rollouts`` counts rolling updates from one version to another."""
    alias = world.alias()
    if alias is None:
        raise DemoError("champion: expected a released version; the alias does not exist.")
    releases = world.releases()
    rollouts = [one for one in releases if one["outcome"] == "released" and one["from"]]
    return {
        "champion": world.versions(alias),
        "alias": alias,
        "deployment_version": world.deployment_version(),
        "pod_versions": world.pod_versions(),
        "rollouts": len(rollouts),
        "releases": releases,
        "rejections": len(refusals),
        "refusals": [asdict(one) for one in refusals],
        "answer": world.answer(alias),
        "online_row": world.online_row(user),
        "seconds": seconds,
    }


def faults(summary: Summary) -> list[str]:
    """What does not fit together; empty when the demo showed what it promises."""
    alias, pods = summary["alias"], summary["pod_versions"]
    found = []
    if summary["deployment_version"] != alias:
        found.append(f"the alias names version {alias}, the Deployment {summary['deployment_version']}")
    if not pods or set(pods.values()) != {alias}:
        found.append(f"the alias names version {alias}, the pods say {pods or 'nothing: there are none'}")
    if summary["rollouts"] < 1:
        found.append("no rolling update from one version to another took place")
    if summary["rejections"] < 2:
        found.append(f"{summary['rejections']} of 2 refusals took place")
    if any(value is None for value in summary["online_row"].values()):
        found.append(f"the online row has missing values: {summary['online_row']}")
    return found


def write(summary: Summary) -> None:
    SUMMARY.parent.mkdir(parents=True, exist_ok=True)
    SUMMARY.write_text(json.dumps(summary, indent=1, default=str) + "\n")


def tell(summary: Summary, pages: dict[str, str], say: Callable[[str], None] = print) -> None:
    champion = summary["champion"]
    say(f"\nChampion: version {champion['version']} of partition {champion['partition']}")
    _tell_metrics(champion, champion["previous"], say)
    say(f"@champion names {summary['alias']}; the Deployment's MODEL_VERSION is {summary['deployment_version']}")
    for pod, version in summary["pod_versions"].items():
        say(f"  pod {pod} says: version {version}")
    for one in reversed(summary["releases"]):
        say(f"  release {one['from'] or 'none'} -> {one['to']}: {one['outcome']}")
    for one in summary["refusals"]:
        say(f"Refused by {one['by']}, {one['what']}, partition {one['partition']}: {' '.join(one['reasons'])[:400]}")
    say(f"Answer of /invocations: {json.dumps(summary['answer']['reply'])[:1000]}")
    say(f"Online row in Redis: {json.dumps(summary['online_row'], sort_keys=True)}")
    for name, address in pages.items():
        say(f"{name}: {address}")
    say(f"Logs: {LOGS}\nSummary: {SUMMARY}\nEverything stays up. End and remove it with: make demo-down")


def _tell_metrics(champion: dict[str, Any], previous: dict[str, Any] | None, say: Callable[[str], None]) -> None:
    before = previous["metrics"] if previous else {}
    say("  each on the held-out customers of its own partition; the gate compares on the same ones")
    say(f"  {'metric':<28}{'champion':>12}{'previous' if previous else '':>12}")
    for name, value in sorted(champion["metrics"].items()):
        if isinstance(value, float):
            other = before.get(name)
            say(f"  {name:<28}{value:>12.4f}{'' if other is None else format(other, '.4f'):>12}")
