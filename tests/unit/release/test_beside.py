"""Before the tier is touched: room to roll, and the candidate's first answer in a pod beside it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_provider_ragops.exceptions import ReleaseRefusedError, RolloutStalledError
from airflow_provider_ragops.rollout.candidate_pod import Blessing, Verdict, build
from airflow_provider_ragops.rollout.feasibility import Feasibility, Fit
from airflow_provider_ragops.rollout.updater import Updater
from tests.unit.release import world as worlds
from tests.unit.release.world import TARGET, World, make_world_serving, make_world_with_candidate


@pytest.mark.parametrize("fault", ["crash", "other", "nan"])
def test_version_that_does_badly_beside_the_tier_never_reaches_it(fault: str) -> None:
    """It crashes, serves another version or answers nonsense: refused; Deployment, alias and ledger are untouched."""
    world = make_world_with_candidate()
    template = world.tier.deployment["spec"]
    world.tier.broken_beside["2"] = fault
    with pytest.raises(ReleaseRefusedError, match=r"beside the tier.*Nothing was touched"):
        world.release("2")
    assert world.tier.deployment["spec"] == template
    assert world.outcomes("2") == []
    world.assert_whole("1")


def test_pod_beside_the_tier_gets_no_request_of_users() -> None:
    """Its labels are not the Service's, and it is gone before the first pod of the tier changes."""
    world, seen = make_world_with_candidate(), []
    create = world.tier.create

    def look(path: str, body: dict[str, object]) -> dict[str, object]:
        if path.endswith("/pods"):
            seen.append((body["metadata"]["labels"].get("app"), world.tier.version()))  # type: ignore[index]
        return create(path, body)

    world.tier.create = look  # type: ignore[method-assign]
    world.release("2")
    assert seen == [(None, "1")]
    world.assert_whole("2")


def test_leftover_of_a_killed_try_does_not_count_as_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """X1, R9: a pod that a killed try left beside the tier has the last room: swept before that is asked for."""
    world = make_world_with_candidate()
    pods = f"/api/v1/namespaces/{TARGET.namespace}/pods"
    left = build(world.tier.deployment, None, TARGET, "2", 1, 60)
    world.tier.create(pods, left)

    def feasibility(*_: object) -> Feasibility:
        assert f"{pods}/{left['metadata']['name']}" not in world.tier.objects
        return Feasibility(Fit.FITS, "there is room")

    monkeypatch.setattr(Updater, "feasibility", feasibility)
    world.release("2")
    world.assert_whole("2")


def no_room(*_: object) -> Feasibility:
    return Feasibility(Fit.NO, "nvidia.com/gpu: 1 wanted, 0 free on 1 node")


def strategies(world: World) -> list[tuple[object, object]]:
    """What each write of the Deployment set, from now on."""
    found: list[tuple[object, object]] = []
    write = world.tier.replace

    def look(path: str, body: dict[str, object]) -> dict[str, object]:
        rolling = body.get("spec", {}).get("strategy", {}).get("rollingUpdate")  # type: ignore[attr-defined]
        if rolling:
            found.append((rolling["maxSurge"], rolling["maxUnavailable"]))
        return write(path, body)

    world.tier.replace = look  # type: ignore[method-assign]
    return found


def test_last_gpu_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """R9: no room for a pod more and no leave to take one away: refused before anything is touched, the lock free."""
    world = make_world_with_candidate()
    monkeypatch.setattr(Updater, "feasibility", no_room)
    with pytest.raises(ReleaseRefusedError, match=r"nvidia\.com/gpu: 1 wanted.*Nothing was touched"):
        world.release("2")
    world.assert_whole("1")


def test_last_gpu_where_the_target_allows_one_pod_less(monkeypatch: pytest.MonkeyPatch) -> None:
    """R9: one pod goes before its successor comes; afterwards the chart's own strategy is back."""
    world = make_world_with_candidate()
    monkeypatch.setattr(Updater, "feasibility", no_room)
    monkeypatch.setattr(worlds, "TARGET", replace(TARGET, allow_unavailable=True))
    written = strategies(world)
    world.release("2")
    assert (0, 1) in written
    assert written[-1] == (1, 0)
    world.assert_whole("2")


def test_blessing_that_finds_no_room_is_as_good_as_knowing(monkeypatch: pytest.MonkeyPatch) -> None:
    """R9: nodes can't be read, but the pod beside the tier stays Pending: that is no room, not the version's fault."""
    world = make_world_with_candidate()
    reason = "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."
    monkeypatch.setattr(Updater, "bless", lambda *_, **__: Blessing(Verdict.NO_ROOM, reason))
    with pytest.raises(ReleaseRefusedError, match="Insufficient"):
        world.release("2")
    assert "ragops.quarantined" not in world.registry.tags["2"]
    world.assert_whole("1")


def test_blessing_that_is_not_possible_does_not_stop_a_release(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is known about the version then: the rollout itself asks each pod."""
    world = make_world_with_candidate()
    monkeypatch.setattr(Updater, "bless", lambda *_, **__: Blessing(Verdict.NOT_POSSIBLE, "evicted"))
    world.release("2")
    world.assert_whole("2")


def test_first_release_needs_no_leave_to_take_pods_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing is served yet, one pod less costs nothing."""
    monkeypatch.setattr(Updater, "feasibility", no_room)
    make_world_serving("1").assert_whole("1")


def test_rollout_that_a_person_stops_blames_nobody() -> None:
    """Paused in mid-rollout: taken back, not quarantined, and a later try may succeed."""
    world = make_world_with_candidate()

    def pause(spare: float) -> None:
        world.tier.deployment["spec"]["paused"] = world.record["phase"] == "rolling"

    with pytest.raises(RolloutStalledError, match=r"paused.*Version 1 is serving again; 2 may be tried again"):
        world.release("2", guard=pause)
    assert "ragops.quarantined" not in world.registry.tags["2"]
