from __future__ import annotations

from datetime import datetime, timezone

import pytest
from kubernetes.client import models as k8s
from kubernetes.client.exceptions import ApiException
from urllib3.exceptions import MaxRetryError

from airflow_provider_ragops.exceptions import ConfigurationError, UnreachableError
from airflow_provider_ragops.operators.pod_failure import PodState, explain, explain_api
from tests.unit.operators.pods import pod, running, terminated, waiting

NOW = datetime(2026, 11, 30, tzinfo=timezone.utc)
SUBJECT = "pod ml-workloads/train-1 (attempt a1)"


@pytest.mark.parametrize(
    ("seen", "permanent", "message"),
    [
        (pod(phase="Pending", state=waiting("ErrImagePull", "not found")), True, "registry/training:1.*not found"),
        (pod(phase="Pending", state=waiting("ImagePullBackOff")), True, "ImagePullBackOff.*image_pull_secrets"),
        (pod(phase="Pending", state=waiting("InvalidImageName")), True, "Correct the image's name"),
        (pod(phase="Pending", state=waiting("ContainerCreating")), False, "startup_timeout_seconds"),
        (pod(phase="Pending", unschedulable="1 Insufficient nvidia.com/gpu"), False,
         "schedule_timeout_seconds; saw Unschedulable: 1 Insufficient nvidia.com/gpu"),
        (pod(state=terminated(1, message="Traceback\nValueError: x")), False, "exit code 1 .*last line: ValueError: x"),
        (pod(state=terminated(2)), True, "exit code 2 .*a retry can't help"),
        (pod(state=terminated(3, message="DataError: digest")), True, "exit code 3 .*last line: DataError: digest"),
        (pod(state=terminated(137, "OOMKilled")), True, "exit code 137 .*OOMKilled.*Raise the memory limit"),
        (pod(state=terminated(0, "OOMKilled"), phase="Succeeded"), True, "exit code 0 .*Raise the memory limit"),
        (pod(state=terminated(137)), False, "exit code 137 .*ended from outside"),
        (pod(reason="Evicted"), False, "phase Failed, Evicted"),
        (pod(reason="Preempting"), False, "phase Failed, Preempting"),
        (pod(phase="Unknown", reason="NodeLost"), False, "phase Unknown, NodeLost"),
        (pod(reason="DeadlineExceeded", state=terminated(137), deadline=3600), True,
         "active_deadline_seconds=3600; saw DeadlineExceeded.*See in the log above where it hung"),
        (pod(reason="DeadlineExceeded", state=waiting("ContainerCreating"), deadline=60), True,
         "active_deadline_seconds=60; saw DeadlineExceeded"),
        (pod(reason="DeadlineExceeded", deadline=60), True, "active_deadline_seconds=60; saw DeadlineExceeded"),
        (pod(reason="DeadlineExceeded", state=running(), deadline=60), True, "active_deadline_seconds=60; saw"),
        (pod(state=waiting("ContainerCreating"), deleted=NOW), False, "deleted, preempted or lost with its node .*404"),
        (pod(state=terminated(143), deleted=NOW), False, "exit code 143 .*ended from outside"),
        (pod(state=waiting("ContainerCreating")), False, "phase Failed, no reason"),
        (None, False, "deleted, preempted or lost with its node .*404"),
    ],
)  # fmt: skip
def test_each_end_has_its_own_error(seen: k8s.V1Pod | None, permanent: bool, message: str) -> None:
    """K3: each way to fail is named with what to do, and is retried only where it may pass by itself."""
    found = explain(PodState(SUBJECT, "base", seen, "(404) Reason: Not Found"))
    assert found.permanent is permanent
    with pytest.raises(type(found), match=message):
        raise found
    assert SUBJECT in str(found)


@pytest.mark.parametrize(("status", "refused"), [(403, True), (404, True), (422, True), (429, False), (500, False)])
def test_refusal_is_told_from_silence(status: int, refused: bool) -> None:
    """What the API server refuses is for the author of the DAG; what may pass is retried. Both name the server."""
    found = explain_api(SUBJECT, "https://10.0.0.1:6443", ApiException(status=status, reason="why"))
    assert isinstance(found, ConfigurationError if refused else UnreachableError)
    assert "https://10.0.0.1:6443" in str(found)


def test_unreachable_cluster_is_named() -> None:
    """No connection at all is retried and names the address."""
    found = explain_api(SUBJECT, "https://10.0.0.1:6443", MaxRetryError(None, "/api", None))  # type: ignore[arg-type]
    assert isinstance(found, UnreachableError)
    assert str(found).startswith("Kubernetes API at https://10.0.0.1:6443: expected an answer")
