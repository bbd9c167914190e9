"""What a workload reads from its pod's environment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from airflow_provider_ragops import contract
from airflow_provider_ragops.exceptions import ConfigurationError

UNKNOWN = "unknown"  # tags can't be empty


@dataclass(frozen=True)
class WorkloadEnvironment:
    """Where MLflow is, which attempt this pod is, and what code and image it runs."""

    tracking_uri: str
    attempt: str
    image: str = UNKNOWN
    git_commit: str = UNKNOWN

    @classmethod
    def read(cls, variables: Mapping[str, str]) -> WorkloadEnvironment:
        """Take the values from environment variables.

        :raises ConfigurationError: when the address of MLflow or the attempt is missing.
        """
        return cls(
            tracking_uri=_required(variables, contract.ENV_TRACKING_URI),
            attempt=_required(variables, contract.ENV_ATTEMPT),
            image=variables.get(contract.ENV_IMAGE) or UNKNOWN,
            git_commit=variables.get(contract.ENV_GIT_COMMIT) or UNKNOWN,
        )


def _required(variables: Mapping[str, str], name: str) -> str:
    if not (value := variables.get(name)):
        raise ConfigurationError(
            f"environment variable {name}", expected="a value", seen="nothing",
            action="Start this workload through its operator, or set the variable.",
        )
    return value
