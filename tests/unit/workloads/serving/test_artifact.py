from __future__ import annotations

import os
import pickle
import socket
from dataclasses import replace
from pathlib import Path

import pytest

from airflow_provider_ragops.contract import TAG_MODEL_DIGEST, tree_digest
from airflow_provider_ragops.exceptions import ConfigurationError, DataError, RegistryError, UnreachableError
from airflow_provider_ragops.workloads.serving import model
from airflow_provider_ragops.workloads.serving.artifact import fetch
from airflow_provider_ragops.workloads.serving.settings import Settings

from .conftest import Registry, Serving, log_files


class Payload:
    """Unpickling it makes a directory: what an attacker's code would do."""

    def __init__(self, flag: Path) -> None:
        self.flag = flag

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (str(self.flag),)


@pytest.fixture
def tampered(mlflow_store: tuple[str, Path], tmp_path: Path) -> tuple[str, str, Path]:
    """URI and original digest of a logged model whose pickle was replaced, and the flag that it would set."""
    source, files = log_files(mlflow_store[1], slope=3.0)
    digest, flag = tree_digest(files), tmp_path / "unpickled"
    (files / "model.pkl").write_bytes(pickle.dumps(Payload(flag)))
    return source, digest, flag


def test_changed_files_are_refused_before_they_are_unpickled(
    settings: Settings, registry: Registry, tampered: tuple[str, str, Path]
) -> None:
    """M4: another digest than the registered one: refused, the payload never ran, the files are gone."""
    source, digest, flag = tampered
    version = registry.register(source=source, digest=digest)
    with pytest.raises(DataError, match=f"version {version}: expected files with digest {digest}"):
        model.load(replace(settings, model_version=version))
    assert not flag.exists()
    assert not list(settings.cache_dir.rglob("model.pkl"))


def test_the_payload_is_real(settings: Settings, registry: Registry, tampered: tuple[str, str, Path]) -> None:
    """Control of the test above: without a registered digest the same files do run their payload."""
    source, _, flag = tampered
    with pytest.raises(RegistryError):
        model.load(replace(settings, model_version=registry.register(source=source, digest="")))
    assert flag.exists()


def test_a_pod_says_why_it_refused_changed_files(
    serving: Serving, registry: Registry, tampered: tuple[str, str, Path]
) -> None:
    """Failed, not ready, and the detail names both digests' origin and the next step."""
    source, digest, _ = tampered
    with serving(model_version=registry.register(source=source, digest=digest)) as client:
        health = client.get("/health")
    assert health.status_code == 503
    assert health.json()["status"] == "failed"
    assert TAG_MODEL_DIGEST in health.json()["detail"]
    assert "Nothing was unpickled" in health.json()["detail"]


def test_a_digest_can_be_required(settings: Settings, registry: Registry) -> None:
    """With require_digest a version that carries none is refused before the download."""
    version = registry.register(digest="")
    with pytest.raises(DataError, match=f"a tag {TAG_MODEL_DIGEST}"):
        fetch(replace(settings, model_version=version, require_digest=True))
    assert not settings.cache_dir.exists()


def test_files_in_the_cache_are_used_again_only_when_the_digest_proves_them(settings: Settings) -> None:
    """A restarted container does not download again; a changed cache is replaced, not trusted."""
    folder = fetch(settings)
    model_file = folder / "model.pkl"
    first = model_file.stat().st_ino
    assert fetch(settings) == folder
    assert model_file.stat().st_ino == first
    model_file.write_bytes(b"changed")
    assert tree_digest(fetch(settings)) == tree_digest(folder)
    assert model_file.read_bytes() != b"changed"


def test_the_digest_depends_on_names_and_contents_only(tmp_path: Path) -> None:
    """Same files elsewhere: same digest; a renamed, changed or additional file: another; MLflow's note is ignored."""
    for name in ("one", "two"):
        (tmp_path / name / "sub").mkdir(parents=True)
        (tmp_path / name / "sub" / "weights").write_bytes(b"w")
        (tmp_path / name / "MLmodel").write_text("m")
    one, two = tmp_path / "one", tmp_path / "two"
    os.utime(two / "MLmodel", (1, 1))
    (two / "registered_model_meta").write_text("written by a download")
    assert tree_digest(one) == tree_digest(two)
    seen = {tree_digest(one)}
    (two / "sub" / "weights").write_bytes(b"x")
    seen.add(tree_digest(two))
    (two / "sub" / "weights").rename(two / "sub" / "weight")
    seen.add(tree_digest(two))
    (two / "sub" / "registered_model_meta").write_text("")
    seen.add(tree_digest(two))
    assert len(seen) == 4


def test_missing_artifacts_are_named(
    settings: Settings, registry: Registry, mlflow_store: tuple[str, Path]
) -> None:
    """M4: a version is READY and its files are gone: permanent, and says so."""
    source, files = log_files(mlflow_store[1], slope=4.0)
    version = registry.register(source=source)
    files.rename(files.with_name("elsewhere"))
    with pytest.raises(RegistryError, match="artifacts are missing"):
        fetch(replace(settings, model_version=version))


@pytest.mark.parametrize("text", ["champion", "@champion", "1/../2", "-1"])
def test_only_a_number_is_a_version(settings: Settings, text: str) -> None:
    """M3: an alias would be resolved anew by every pod; a path would leave the cache."""
    with pytest.raises(ConfigurationError, match="a version number"):
        fetch(replace(settings, model_version=text))


def test_an_unreachable_mlflow_is_named_with_its_address(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """L7: nobody listens: a retryable error with the address, soon."""
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with socket.socket() as bound:  # bound and not listening: connections are refused
        bound.bind(("127.0.0.1", 0))
        uri = f"http://127.0.0.1:{bound.getsockname()[1]}"
        with pytest.raises(UnreachableError, match=uri):
            fetch(replace(settings, tracking_uri=uri))


def test_a_cache_that_cannot_be_written_is_named(settings: Settings, tmp_path: Path) -> None:
    """The volume is not what it should be: permanent, names directory and volume."""
    (tmp_path / "file").write_text("not a directory")
    with pytest.raises(ConfigurationError, match=r"model cache .*model-cache"):
        fetch(replace(settings, cache_dir=tmp_path / "file"))
