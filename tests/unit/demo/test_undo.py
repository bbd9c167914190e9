"""A start that fails before the first run undoes what it brought up itself, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest
from demo import __main__ as demo
from demo import cluster as clusters
from demo import world
from demo.errors import DemoError


@pytest.mark.parametrize(
    ("state", "cluster", "undone", "told"),
    [
        (True, True, [], "earlier run left was not removed"),
        (False, True, [{"cluster": False}], "no disk"),
        (False, False, [{"cluster": True}], "no disk"),
    ],
)
def test_only_what_this_run_started_is_undone(
    state: bool, cluster: bool, undone: list[dict[str, bool]], told: str,
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:
    """An earlier run's models stay; a cluster that was up before stays up."""
    for module, name, there in ((world, "MARK", state), (clusters, "OURS", cluster)):
        monkeypatch.setattr(module, name, tmp_path / name)
        if there:
            (tmp_path / name).write_text("{}" if name == "MARK" else "local")

    def fails() -> clusters.Cluster:
        clusters.OURS.write_text("local")
        raise DemoError("no disk")

    calls: list[dict[str, bool]] = []
    monkeypatch.setattr(demo.signal, "signal", lambda *_: None)
    monkeypatch.setattr(clusters, "up", fails)
    monkeypatch.setattr(world, "leave", lambda _say, **how: calls.append(how))
    assert demo.up(0.0) == 1
    assert calls == undone
    assert told in capsys.readouterr().err
