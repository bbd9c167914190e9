"""Parts of a workload's pod as data: security, scratch space, GPUs, credentials by reference."""

from __future__ import annotations

import re

from kubernetes.client import models as k8s

USER_ID = 10001  # the user of our images; any other non-root id works, they write to /tmp only

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
# Environment variables of MLflow's client and the keys of the Secret that fill them.
_MLFLOW_KEYS = {
    "MLFLOW_TRACKING_USERNAME": "username",
    "MLFLOW_TRACKING_PASSWORD": "password",
    "MLFLOW_TRACKING_TOKEN": "token",
}


def pod_security() -> k8s.V1PodSecurityContext:
    return k8s.V1PodSecurityContext(
        run_as_non_root=True, run_as_user=USER_ID, run_as_group=USER_ID,
        seccomp_profile=k8s.V1SeccompProfile(type="RuntimeDefault"),
    )


def container_security() -> k8s.V1SecurityContext:
    return k8s.V1SecurityContext(
        allow_privilege_escalation=False, read_only_root_filesystem=True,
        capabilities=k8s.V1Capabilities(drop=["ALL"]),
    )


def scratch() -> tuple[k8s.V1Volume, k8s.V1VolumeMount]:
    """The one writable place of a pod with a read-only root file system."""
    return _empty_dir("tmp", "/tmp", k8s.V1EmptyDirVolumeSource())  # noqa: S108 - the pod's own, empty at start


def shared_memory(size: str) -> tuple[k8s.V1Volume, k8s.V1VolumeMount]:
    """Container runtimes give /dev/shm 64 MiB; data loaders that hand over batches there need more."""
    return _empty_dir("shared-memory", "/dev/shm", k8s.V1EmptyDirVolumeSource(medium="Memory", size_limit=size))  # noqa: S108


def _empty_dir(
    name: str, path: str, source: k8s.V1EmptyDirVolumeSource
) -> tuple[k8s.V1Volume, k8s.V1VolumeMount]:
    return k8s.V1Volume(name=name, empty_dir=source), k8s.V1VolumeMount(name=name, mount_path=path)


def resources(
    cpu: str, memory: str, cpu_limit: str | None = None, gpus: int = 0, gpu_resource: str = ""
) -> k8s.V1ResourceRequirements:
    """Memory and GPUs appear in requests and limits alike: neither can be taken back from a running pod."""
    both = {"memory": memory} | ({gpu_resource: str(gpus)} if gpus else {})
    return k8s.V1ResourceRequirements(
        requests={"cpu": cpu, **both}, limits=({"cpu": cpu_limit} if cpu_limit else {}) | both
    )


def gpu_toleration(gpu_resource: str) -> k8s.V1Toleration:
    """GPU nodes are usually tainted with the resource's name, so that other pods stay away."""
    return k8s.V1Toleration(key=gpu_resource, operator="Exists", effect="NoSchedule")


def is_pinned(image: str) -> bool:
    """Whether the reference names one build: by a digest, or by a tag other than ``latest``."""
    name, _, digest = image.partition("@")
    if digest:
        return bool(_DIGEST.fullmatch(digest))
    return name.rpartition("/")[2].partition(":")[2] not in ("", "latest")


def mlflow_credentials(secret: str) -> list[k8s.V1EnvVar]:
    """Refer to a Secret with the keys username and password, or token; a missing key is no error."""
    return [
        k8s.V1EnvVar(
            name=name,
            value_from=k8s.V1EnvVarSource(
                secret_key_ref=k8s.V1SecretKeySelector(name=secret, key=key, optional=True)
            ),
        )
        for name, key in _MLFLOW_KEYS.items()
    ]
