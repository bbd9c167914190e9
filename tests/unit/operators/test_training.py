from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import pytest
from airflow.providers.cncf.kubernetes.operators.pod import KubernetesPodOperator
from airflow.sdk.exceptions import AirflowException, AirflowFailException
from kubernetes.client import models as k8s

from airflow_provider_ragops import contract
from airflow_provider_ragops.exceptions import WorkloadFailedError
from airflow_provider_ragops.hooks.mlflow import MlflowHook
from airflow_provider_ragops.operators import pod_parts
from airflow_provider_ragops.operators.training import GpuTrainingPodOperator
from airflow_provider_ragops.workloads.training.parameters import TrainingParameters
from tests.stores import register
from tests.unit.operators.pods import KUBERNETES, TaskInstance, context, link_of, pod, running, terminated

MODEL, IMAGE = "Churn", "registry/training:1"
PARAMETERS = TrainingParameters(3, 64, 0.01, 7)
KEY = contract.registration_key(MODEL, "2026-11-29", "d1", PARAMETERS.digest, IMAGE)


def operator(**changes: Any) -> GpuTrainingPodOperator:
    given: dict[str, Any] = {
        "task_id": "train", "image": IMAGE, "namespace": "ml-workloads", "model": MODEL, "experiment": "churn",
        "data_uri": "runs:/r/t.parquet", "data_digest": "d1", "partition": "2026-11-29",
        "cutoff": "2026-08-31T00:00:00+00:00", "epochs": "3", "batch_size": "64", "learning_rate": "0.01", "seed": "7",
    }  # fmt: skip
    return GpuTrainingPodOperator(**given | changes)


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Iterator[mock.MagicMock]:
    """The edge to Kubernetes: no pods live; anything else that is asked of it is the test's business."""
    monkeypatch.setenv("AIRFLOW_CONN_KUBERNETES_DEFAULT", KUBERNETES)
    client = mock.MagicMock()
    client.list_namespaced_pod.return_value.items = []
    hook = mock.MagicMock(core_v1_client=client, is_in_cluster=False)
    hook.get_namespace.return_value = "ml-workloads"
    with mock.patch.object(GpuTrainingPodOperator, "hook", hook):
        yield client


@pytest.fixture
def runs_pod(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """Replace the life of the pod by what it leaves behind; gives the attempts that were started."""

    def replace(end: k8s.V1Pod, effect: Callable[[str], object] = lambda _: None, fails: bool = False) -> list[str]:
        attempts: list[str] = []

        def execute_sync(self: Any, _: Any) -> None:
            attempts.append(self.attempt)
            self.pod = self.last_seen = end
            effect(self.attempt)
            if fails:
                raise AirflowException("Pod train-1 returned a failure.")

        monkeypatch.setattr(KubernetesPodOperator, "execute_sync", execute_sync)
        return attempts

    return replace


def leave_version(
    hook: MlflowHook, attempt: str, *, status: str = "FINISHED", marked: bool = True, run_marked: bool = True
) -> str:
    """What the workload leaves in MLflow."""
    marker = {contract.TAG_COMPLETED: attempt}
    run_id = hook.start_run("churn", "training", {contract.TAG_ATTEMPT: attempt} | (marker if run_marked else {}))
    hook.end_run(run_id, status)
    tags = {contract.TAG_REGISTRATION_KEY: KEY} | (marker if marked else {})
    return register(hook, MODEL, tags, run_id)


def built(given: GpuTrainingPodOperator) -> k8s.V1Pod:
    ti = TaskInstance()
    given.prepare(context(ti), KEY, ["--epochs", "3"])
    return given.build_pod_request_obj(context(ti))


def test_pod_asks_for_a_gpu(api: mock.MagicMock, mlflow_store: MlflowHook) -> None:
    """GPUs are requested and limited alike, their nodes' taint is tolerated, /dev/shm has room."""
    spec = built(operator(gpus=2, shared_memory="3Gi", memory="4Gi", cpu="2", cpu_limit="4")).spec
    base = spec.containers[0]
    assert base.resources.requests == {"cpu": "2", "memory": "4Gi", "nvidia.com/gpu": "2"}
    assert base.resources.limits == {"cpu": "4", "memory": "4Gi", "nvidia.com/gpu": "2"}
    assert [(each.key, each.operator, each.effect) for each in spec.tolerations] == [
        ("nvidia.com/gpu", "Exists", "NoSchedule")
    ]
    memory = next(volume for volume in spec.volumes if volume.name == "shared-memory")
    assert (memory.empty_dir.medium, memory.empty_dir.size_limit) == ("Memory", "3Gi")
    assert {mount.mount_path for mount in base.volume_mounts} == {"/dev/shm", "/tmp"}


def test_pod_without_gpu_tolerates_nothing(api: mock.MagicMock, mlflow_store: MlflowHook) -> None:
    """gpus=0 trains on any node: no resource, no toleration."""
    spec = built(operator(gpus=0)).spec
    assert spec.containers[0].resources.limits == {"memory": "2Gi"}
    assert spec.tolerations == []


def test_pod_is_hardened(api: mock.MagicMock, mlflow_store: MlflowHook) -> None:
    """Non-root, read-only root file system, no privileges, no API token."""
    spec = built(operator()).spec
    container = spec.containers[0].security_context
    assert (spec.security_context.run_as_non_root, spec.security_context.run_as_user) == (True, 10001)
    assert spec.security_context.seccomp_profile.type == "RuntimeDefault"
    assert (container.read_only_root_filesystem, container.allow_privilege_escalation) == (True, False)
    assert container.capabilities.drop == ["ALL"]
    assert spec.automount_service_account_token is False


def test_pod_knows_its_attempt_and_work(api: mock.MagicMock, mlflow_store: MlflowHook) -> None:
    """K2: the attempt is in environment and labels; so are the work and the task, by which a retry finds its pod."""
    first, second = operator(), operator()
    found = built(first)
    env = {each.name: each.value for each in found.spec.containers[0].env}
    assert env[contract.ENV_ATTEMPT] == found.metadata.labels[contract.LABEL_ATTEMPT] == first.attempt
    assert (env[contract.ENV_TRACKING_URI], env[contract.ENV_IMAGE]) == (mlflow_store.tracking_uri, IMAGE)
    assert found.metadata.labels[contract.LABEL_WORK] == KEY
    assert found.metadata.labels[contract.LABEL_PARTITION] == "2026-11-29"
    assert built(second).metadata.labels[contract.LABEL_TASK] == found.metadata.labels[contract.LABEL_TASK]
    assert second.attempt != first.attempt


def test_credentials_are_references(api: mock.MagicMock, mlflow_store: MlflowHook) -> None:
    """User, password and token come from a Secret; no value of the connection reaches the pod's description."""
    secret = '{"conn_type": "mlflow", "host": "http://mlflow:5000", "login": "u-canary", "password": "p-canary"}'
    with mock.patch.dict(os.environ, {"AIRFLOW_CONN_MLFLOW_DEFAULT": secret}):
        given = operator(mlflow_secret="mlflow-credentials")
        found = built(given)
    env = {each.name: each for each in found.spec.containers[0].env}
    for name, key in (("USERNAME", "username"), ("PASSWORD", "password"), ("TOKEN", "token")):
        reference = env[f"MLFLOW_TRACKING_{name}"].value_from.secret_key_ref
        assert (reference.name, reference.key) == ("mlflow-credentials", key)
    assert env[contract.ENV_TRACKING_URI].value == "http://mlflow:5000"
    assert "canary" not in str(found) + str({name: getattr(given, name) for name in given.template_fields})


def test_credentials_in_the_address_are_refused(api: mock.MagicMock, mlflow_store: MlflowHook) -> None:
    """An address with user and password would show in the rendered fields: refused, and not repeated."""
    with pytest.raises(AirflowFailException, match="mlflow_secret") as refused:
        operator(mlflow_tracking_uri="http://me:canary@mlflow:5000").execute(context(TaskInstance()))
    assert "canary" not in str(refused.value)


def test_every_knob_is_templated() -> None:
    """All that a run may choose can come from a template; the base class' fields stay."""
    own = {
        "model", "partition", "data_uri", "data_digest", "mlflow_tracking_uri", "mlflow_secret", "git_commit",
        "experiment", "cutoff", "epochs", "batch_size", "learning_rate", "seed",
    }  # fmt: skip
    assert set(GpuTrainingPodOperator.template_fields) == own | set(KubernetesPodOperator.template_fields)
    assert own <= vars(operator()).keys()


def test_gpu_pod_may_wait_for_its_node() -> None:
    """G: the base class would give up after 120 s; a GPU node may have to be started first."""
    assert operator().schedule_timeout_seconds == 1800


@pytest.mark.parametrize(("phase", "followed"), [("Running", True), ("Failed", False), ("Succeeded", False)])
def test_pod_that_is_over_is_not_followed(api: mock.MagicMock, phase: str, followed: bool) -> None:
    """K5: a container that its kubelet still calls running, in a pod ended by its deadline, is not waited for."""
    end = pod(phase=phase, reason="DeadlineExceeded", state=running())
    api.read_namespaced_pod.return_value = end
    given = operator()
    with mock.patch.object(GpuTrainingPodOperator, "client", api):
        assert given.pod_manager.container_is_running(end, "base") is followed


@pytest.mark.parametrize(("change", "seconds"), [({}, 6 * 3600), ({"active_deadline_seconds": 60}, 60)])
def test_pod_has_a_deadline(
    api: mock.MagicMock, mlflow_store: MlflowHook, change: dict[str, int], seconds: int
) -> None:
    """A training that hangs does not hold its GPU for ever: its node ends it after six hours, or as told."""
    assert built(operator(**change)).spec.active_deadline_seconds == seconds


def test_range_of_one_day_is_the_day(
    api: mock.MagicMock, mlflow_store: MlflowHook, runs_pod: Callable[..., list[str]]
) -> None:
    """The pod keys on the canonical partition, and so must the task, or it finds no proof of what was trained."""
    given = operator(partition="2026-11-29_2026-11-29")
    assert given.registration_key == KEY
    assert given.command_line == operator().command_line
    assert built(given).metadata.labels[contract.LABEL_PARTITION] == "2026-11-29"


DIGEST = "@sha256:" + "a" * 64


@pytest.mark.parametrize("image", [
    "training", "training:latest", "registry:5000/team/training", "registry:5000/training:latest",
    "training@sha256:ab", "training:1@md5:" + "a" * 64, "training:",
])  # fmt: skip
def test_moving_image_is_refused(
    api: mock.MagicMock, mlflow_store: MlflowHook, runs_pod: Callable[..., list[str]], image: str
) -> None:
    """A rebuilt `latest` has the same registration key: it would silently reuse the version of the old image."""
    attempts = runs_pod(pod())
    leave_version(mlflow_store, "earlier")
    with pytest.raises(AirflowFailException, match=f"image of task train: .*saw '{image}'. Pin the image"):
        operator(image=image).execute(context(TaskInstance()))
    assert attempts == []


@pytest.mark.parametrize("image", ["training:1", "registry:5000/training:2b", f"training{DIGEST}", f"t:latest{DIGEST}"])
def test_pinned_image_is_taken(image: str) -> None:
    """A tag of its own names one build; a digest does, whatever the tag says."""
    assert pod_parts.is_pinned(image)


@pytest.fixture
def pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """The store of the tests has no pages: name them by their runs."""
    monkeypatch.setattr(MlflowHook, "run_url", lambda _, run: f"page of {run.info.run_id}")


@pytest.mark.usefixtures("pages")
def test_task_links_to_its_run(
    api: mock.MagicMock, mlflow_store: MlflowHook, runs_pod: Callable[..., list[str]]
) -> None:
    """The button opens the training run: after a training, a reuse, and a pod that left a run and no proof."""
    ended = pod(phase="Succeeded", state=terminated(0, "Completed"))
    runs_pod(ended, lambda attempt: leave_version(mlflow_store, attempt, marked=False))
    without_proof, trained, reused = operator(), operator(), operator()
    with pytest.raises(AirflowFailException):
        without_proof.execute(context(TaskInstance()))
    runs_pod(ended, lambda attempt: leave_version(mlflow_store, attempt))
    trained.execute(context(TaskInstance()))
    reused.execute(context(TaskInstance()))

    runs = [mlflow_store.registry().version(MODEL, version).run_id for version in "122"]
    assert [link_of(each) for each in (without_proof, trained, reused)] == [f"page of {run}" for run in runs]


def test_marked_version_is_the_result(
    api: mock.MagicMock, mlflow_store: MlflowHook, runs_pod: Callable[..., list[str]]
) -> None:
    """The pod left a completed version: that is what the next task gets, by XCom."""
    ended = pod(phase="Succeeded", state=terminated(0, "Completed"))
    attempts = runs_pod(ended, lambda attempt: leave_version(mlflow_store, attempt))
    ti = TaskInstance()
    operator().execute(context(ti))
    result = ti.xcoms["return_value"]
    assert result == {
        "model": MODEL, "version": "1", "run_id": mlflow_store.registry().version(MODEL, "1").run_id,
        "attempt": attempts[0], "reused": False,
    }  # fmt: skip


def test_completed_version_needs_no_pod(
    api: mock.MagicMock, mlflow_store: MlflowHook, runs_pod: Callable[..., list[str]]
) -> None:
    """The same work was done before, by another run or try: reused, and no pod is started."""
    attempts = runs_pod(pod())
    leave_version(mlflow_store, "dead", marked=False)
    leave_version(mlflow_store, "earlier")
    ti = TaskInstance()
    operator().execute(context(ti))
    assert attempts == []
    assert ti.xcoms["return_value"] | {"run_id": ""} == {
        "model": MODEL, "version": "2", "run_id": "", "attempt": "earlier", "reused": True,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("effect", "seen"),
    [
        (lambda hook, attempt: None, "MLflow has no run of this attempt, and no version"),
        (lambda hook, attempt: leave_version(hook, attempt, marked=False), "version 1 has no completion marker"),
        (lambda hook, attempt: leave_version(hook, attempt, status="FAILED"), "is FAILED"),
        (lambda hook, attempt: leave_version(hook, attempt, marked=False, run_marked=False), "is FINISHED"),
        (lambda hook, attempt: leave_version(hook, attempt, run_marked=False), "is FINISHED"),
    ],
)
def test_exit_zero_without_marker_is_a_failure(
    api: mock.MagicMock, mlflow_store: MlflowHook, runs_pod: Callable[..., list[str]],
    effect: Callable[[MlflowHook, str], object], seen: str,
) -> None:  # fmt: skip
    """K1: a pod that ends well without proof fails the task, naming pod, attempt, run and what to do."""
    ended = pod(phase="Succeeded", state=terminated(0, "Completed"))
    attempts = runs_pod(ended, lambda attempt: effect(mlflow_store, attempt))
    ti = TaskInstance()
    with pytest.raises(AirflowFailException, match=seen) as failure:
        operator().execute(context(ti))
    for part in ("ml-workloads/train-1", attempts[0], KEY, "clear the task"):
        assert part in str(failure.value)
    assert "return_value" not in ti.xcoms


@pytest.mark.parametrize(
    ("end", "error"),
    [
        (pod(state=terminated(1)), WorkloadFailedError),
        (pod(state=terminated(3)), AirflowFailException),
        (pod(state=terminated(137, "OOMKilled")), AirflowFailException),
        (pod(reason="Evicted"), WorkloadFailedError),
    ],
)
def test_failed_pod_is_retried_only_where_it_may_help(
    api: mock.MagicMock, mlflow_store: MlflowHook, runs_pod: Callable[..., list[str]], end: k8s.V1Pod,
    error: type[Exception],
) -> None:  # fmt: skip
    """K3: Airflow sees a permanent failure or a retryable one, as the end of the pod says."""
    runs_pod(end, fails=True)
    with pytest.raises(error, match="ml-workloads/train-1"):
        operator().execute(context(TaskInstance()))


def test_killed_task_is_not_a_success(
    api: mock.MagicMock, mlflow_store: MlflowHook, runs_pod: Callable[..., list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A1, K1: on_kill returns into the running body (airflow#73006): the pod is deleted, the task still fails."""
    given = operator()
    runs_pod(pod(phase="Succeeded", state=terminated(0)), lambda _: given.on_kill())
    with pytest.raises(WorkloadFailedError, match="the task was killed"):
        given.execute(context(TaskInstance()))
    api.delete_namespaced_pod.assert_called_once_with(name="train-1", namespace="ml-workloads")


def living(attempt: str, phase: str = "Running", deleted: object = None) -> k8s.V1Pod:
    found = pod(phase=phase)
    found.metadata.labels = {contract.LABEL_ATTEMPT: attempt}
    found.metadata.creation_timestamp, found.metadata.deletion_timestamp = 1, deleted
    return found


def test_retry_adopts_the_pod_of_a_dead_worker(
    api: mock.MagicMock, mlflow_store: MlflowHook, runs_pod: Callable[..., list[str]]
) -> None:
    """K2: the worker died, its pod lives and does the same work: one GPU pod, one version, under its own attempt."""
    api.list_namespaced_pod.return_value.items = [living("first-try")]
    attempts = runs_pod(pod(phase="Succeeded", state=terminated(0)), lambda name: leave_version(mlflow_store, name))
    ti = TaskInstance()
    given = operator()
    given.execute(context(ti))
    assert attempts == ["first-try"]
    assert ti.xcoms["return_value"]["attempt"] == "first-try"
    selector = api.list_namespaced_pod.call_args.kwargs["label_selector"]
    task = contract.digest("churn", "manual__1", "train", "-1")
    assert selector == f"{contract.LABEL_TASK}={task},{contract.LABEL_WORK}={KEY}"


@pytest.mark.parametrize("found", [living("a", phase="Succeeded"), living("a", phase="Failed"), living("a", deleted=2)])
def test_dead_pods_are_not_adopted(api: mock.MagicMock, mlflow_store: MlflowHook, found: k8s.V1Pod) -> None:
    """A pod that ended or is going proves nothing and is left alone."""
    api.list_namespaced_pod.return_value.items = [found]
    given = operator()
    given.prepare(context(TaskInstance()), KEY, [])
    assert given.pod is None
    assert given.attempt != "a"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"epochs": "many"}, "training parameter epochs"),
        ({"partition": "yesterday"}, "partition 'yesterday'"),
        ({"partition": "20261129"}, "partition '20261129'"),
        ({"image": None}, "parameter 'image': expected a value"),
        ({"data_uri": "None"}, "parameter 'data_uri': expected a value"),
        ({"deferrable": True}, "expected deferrable=False"),
    ],
)
def test_bad_values_are_refused_before_a_pod(
    api: mock.MagicMock, mlflow_store: MlflowHook, runs_pod: Callable[..., list[str]], change: dict[str, Any],
    message: str,
) -> None:  # fmt: skip
    """What a template rendered to nonsense fails at once, named, without a pod."""
    attempts = runs_pod(pod())
    with pytest.raises(AirflowFailException, match=message):
        operator(**change).execute(context(TaskInstance()))
    assert attempts == []
