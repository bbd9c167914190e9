"""The preStop hook: whom it tells, how long it waits, and above all what it must not delete."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest
from demo.paths import ROOT

from airflow_provider_ragops.workloads.serving import leaving

MINE, OTHERS = "mlflow-serve-7f9c-abcde", "mlflow-serve-7f9c-fghij"
HOOK = "airflow_provider_ragops.workloads.serving.leaving"


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """A folder that two pods share, each with a cached model in a directory of its own."""
    for pod in (MINE, OTHERS):
        model = tmp_path / "models" / pod / "rag-retriever" / "2"
        model.mkdir(parents=True)
        (model / "model.pt").write_text(pod)
        (model / "to-a-file").symlink_to(tmp_path / "models" / OTHERS / "rag-retriever" / "2" / "model.pt")
        (model / "to-a-folder").symlink_to(tmp_path / "models" / OTHERS)
    return tmp_path / "models"


def files(folder: Path) -> set[str]:
    return {str(one.relative_to(folder)) for one in folder.rglob("*")}


class Hook:
    """One call of the hook with its log, its waits, and whether the server was told."""

    def __init__(self) -> None:
        self.told, self.said, self.waits = 0, list[tuple[str, str]](), list[float]()
        self.meanwhile: Callable[[], object] = list

    def tell(self) -> None:
        self.told += 1

    def __call__(self, *arguments: str, cache: Path | str = "", pod: str = MINE) -> str:
        """All that it said."""
        environ = {"MODEL_CACHE_DIR": str(cache), "POD_NAME": pod}
        say = lambda *line: self.said.append(line)  # noqa: E731
        code = leaving.main(arguments, environ, say, tell=lambda: self.tell(), sleep=self._wait)
        assert code == 0
        return "\n".join(message for _, message in self.said)

    def _wait(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.meanwhile()


@pytest.fixture
def hook() -> Hook:
    return Hook()


def test_its_own_directory_is_cleared_and_no_other(shared: Path, hook: Hook) -> None:
    """R5: one pod leaves: its files go, the pod beside it keeps every one, also those that links point to."""
    before = files(shared / OTHERS)
    assert "5 files and folders removed" in hook("5", cache=shared / MINE)
    assert files(shared) == {MINE, OTHERS} | {f"{OTHERS}/{name}" for name in before}
    assert (shared / OTHERS / "rag-retriever/2/model.pt").read_text() == OTHERS


def test_the_shared_directory_is_refused(shared: Path, hook: Hook) -> None:
    """R5: the seed's $(POD_NAME) in a shell expands to nothing; the same mistake here clears nothing."""
    before = files(shared)
    said = hook("5", cache=f"{shared}/")
    assert f"expected the directory of pod {MINE}" in said
    assert "it is no mount" in said
    assert files(shared) == before


def test_another_pods_directory_is_refused(shared: Path, hook: Hook) -> None:
    """R5: neither by a wrong path nor by a link that has the right name."""
    before = files(shared / OTHERS)
    assert "not cleared" in hook("5", cache=shared / OTHERS)
    link = shared.parent / MINE
    link.symlink_to(shared / OTHERS)
    assert "a link" in hook("5", cache=link)
    assert "a link" in hook("5", cache=f"{link}/")
    assert files(shared / OTHERS) == before


@pytest.mark.parametrize(("cache", "pod", "reason"), [
    ("", MINE, "MODEL_CACHE_DIR is not set"), ("/", MINE, "root of the file system"),
    ("//", MINE, "root of the file system"), ("/tmp/..", MINE, "root of the file system"),
    ("models", MINE, "expected an absolute path"), ("/no/such/folder", MINE, "no directory"),
    ("/proc/version", MINE, "no directory"), ("/tmp", "", "POD_NAME is not set"), ("/tmp", MINE, "not cleared"),
])  # fmt: skip
def test_what_is_not_a_directory_of_this_pod_is_left(hook: Hook, cache: str, pod: str, reason: str) -> None:
    """R5: the log says why, and the hook ends well all the same."""
    assert reason in hook("0", cache=cache, pod=pod)
    assert hook.said[-1][0] == "warning"


def mountinfo(folder: Path, *mounts: tuple[str, str]) -> Path:
    found = folder / "mountinfo"
    lines = [f"65 44 254:0 {root} {at} rw,relatime - ext4 /dev/vda rw\n" for root, at in mounts]
    found.write_text("".join(["22 1 0:21 / / rw - overlay overlay rw\n", *lines]))
    return found


@pytest.mark.parametrize(("mounts", "owned"), [
    ([f"/var/cache/models/{MINE}"], True),  # hostPath with subPathExpr
    ([f"/pods/4f/volumes/kubernetes.io~empty-dir/model-cache/{MINE}"], True),
    ([f"/{MINE}"], True),  # a PVC on a file system of its own
    (["/var/cache/models"], False),  # the shared folder itself
    ([f"/var/cache/models/{OTHERS}"], False), (["/"], False), ([], False),
    ([f"/var/cache/models/{MINE}", "/var/cache/models"], False),  # the later mount covers the earlier one
    ([f"/var/cache/models/{MINE}-2"], False),
])  # fmt: skip
def test_a_mount_is_this_pods_by_the_name_of_what_is_mounted(
    tmp_path: Path, mounts: list[str], owned: bool
) -> None:
    """R5: the path is the same in every pod; what the kubelet mounted there is not."""
    cache = tmp_path / "model cache"
    cache.mkdir()
    at = str(cache).replace(" ", "\\040")
    found = leaving.fault(str(cache), MINE, mountinfo(tmp_path, *((root, at) for root in mounts)))
    assert (found == "") is owned, found


def test_unready_first_then_wait_then_clear(shared: Path, hook: Hook) -> None:
    """R5: /health says so from the first moment, and the model's files are there as long as requests come."""
    model = shared / MINE / "rag-retriever/2/model.pt"
    seen: list[tuple[int, bool]] = []
    hook.meanwhile = lambda: seen.append((hook.told, model.exists()))
    hook("7", cache=shared / MINE)
    assert (hook.waits, seen, model.exists()) == ([7.0], [(1, True)], False)
    assert [level for level, _ in hook.said] == ["info", "info"]


@pytest.mark.parametrize(("arguments", "waits"), [
    ([], 5.0), (["0.5"], 0.5), (["ten"], 5.0), ([""], 5.0), (["-1"], 5.0), (["nan"], 5.0), (["1e9"], 5.0),
])  # fmt: skip
def test_it_waits_whatever_it_was_told(hook: Hook, arguments: list[str], waits: float) -> None:
    """R5: a slip in the chart costs no request: the default is waited for, and the log names the slip."""
    said = hook(*arguments)
    assert hook.waits == [waits]
    assert ("expected seconds" in said) is (arguments not in ([], ["0.5"]))


def test_no_step_depends_on_the_one_before(shared: Path, hook: Hook, monkeypatch: pytest.MonkeyPatch) -> None:
    """R5: the server is not to be told and the volume odd: it still waits, says both, and does not fail."""

    def broken(*_: object) -> str:
        raise ValueError("odd")

    monkeypatch.setattr(leaving, "fault", broken)
    monkeypatch.setattr(hook, "tell", broken)
    said = hook("3", cache=shared / MINE)
    assert hook.waits == [3.0]
    assert "goes on to answer 200" in said
    assert "ValueError: odd" in said
    assert {level for level, _ in hook.said} == {"error"}


def test_clearing_ends_in_time(shared: Path) -> None:
    """R5: a slow volume must not take the time of the requests in flight."""
    ticks = iter(range(100))
    removed, left = leaving.clear(str(shared / MINE), 3, lambda: float(next(ticks)))
    assert (removed, left) == (2, "the rest, after 3 s")
    assert files(shared / MINE)


def test_what_cannot_be_removed_is_told_and_passed_over(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """R5: one file that stays does not keep the others."""
    unlink = os.unlink

    def refusing(name: str, **given: int) -> None:
        if name == "model.pt":
            raise PermissionError(1, "Operation not permitted")
        unlink(name, **given)

    monkeypatch.setattr(leaving.os, "unlink", refusing)
    removed, left = leaving.clear(str(shared / MINE), 60)
    assert left.startswith("model.pt: Operation not permitted")
    assert removed == 2
    assert files(shared / MINE) == {"rag-retriever", "rag-retriever/2", "rag-retriever/2/model.pt"}


# As the kubelet does it: process namespace and mounts of its own, the pod's directory mounted at the same path in
# each; process 1 stands for the server: its error output is the container's log, and it says that it was told.
CONTAINER = textwrap.dedent("""
    mount --bind "$SHARED/$POD_NAME" "$MODEL_CACHE_DIR"
    trap 'echo told >&2' USR1
    echo "the server's own line" >&2
    # A shell of its own: process 1 would redirect its own output while it waits.
    sh -c '"$PYTHON" -m %s 0 > /dev/null 2> "$SHARED/unseen"'
    echo "ended with $?" >&2
""" % HOOK)  # noqa: UP031


def test_in_a_container_beside_another(shared: Path, tmp_path: Path) -> None:
    """R5: the real hook, the real mount: this pod's directory is emptied, and the log of process 1 says so."""
    cache = tmp_path / "model_cache"
    cache.mkdir()
    alone = ["unshare", "--mount", "--pid", "--fork", "--mount-proc", *(["--map-root-user"] if os.getuid() else [])]
    environ = {
        "PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "PYTHON": sys.executable, "SHARED": str(shared),
        "POD_NAME": MINE, "MODEL_CACHE_DIR": str(cache), "HOME": str(tmp_path),
    }
    others = files(shared / OTHERS)
    ran = subprocess.run(
        [*alone, "sh", "-c", CONTAINER], env=environ, capture_output=True, text=True, timeout=60, check=True
    )
    first, *lines, told, last = ran.stderr.splitlines()
    assert (first, told, last) == ("the server's own line", "told", "ended with 0")
    said = [json.loads(line) for line in lines]
    assert [one["level"] for one in said] == ["info", "info"]
    assert said[0]["logger"] == HOOK
    assert "5 files and folders removed" in said[1]["message"]
    assert (shared / "unseen").read_text() == ""
    assert files(shared / MINE) == set()
    assert files(shared / OTHERS) == others


def test_it_starts_without_the_libraries_of_the_server() -> None:
    """R5: a pod that stops waits for the hook's start: it reads nothing but the standard library and the contract."""
    script = f"import sys, {HOOK}; print(*{{name.partition('.')[0] for name in sys.modules}})"
    ran = subprocess.run(
        [sys.executable, "-S", "-c", script], env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=True,
        timeout=60,
    )
    foreign = set(ran.stdout.split()) - set(sys.stdlib_module_names)
    assert foreign == {"airflow_provider_ragops", "__main__"}
