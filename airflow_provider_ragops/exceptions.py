"""Every error that this package raises; knows no Airflow (operators translate).

.. code-block:: text

    RagopsError                          names an object, what was expected, what was seen, what to do next
    ├── ConfigurationError               a setting is impossible; fix the DAG, the connection or the chart
    │   ├── PartitionError               no partition, or not whole UTC days, or in the future
    │   └── MissingExtraError            an optional library is not installed
    ├── UnreachableError                 a service did not answer in time            (later)
    ├── ClusterError                     Kubernetes refused a call: forbidden, invalid, not found
    │   └── ConflictError                someone wrote the object since we read it   (later)
    ├── DataError                        data that must not go further
    │   ├── ContractViolationError       a partition breaks its contract
    │   ├── LeakageError                 a training row knows the future
    │   ├── ModelFilesError              files of a RAG model are missing, cut short, or do not belong together
    │   ├── EncoderError                 the image's base encoder is missing, or not the one a version was made with
    │   ├── EmbeddingDimensionError      vectors of another dimension than the loaded version's
    │   ├── TokenizerError               a tokenizer whose vocabulary is not the loaded version's
    │   └── MaterializationError         the online store does not hold what was written (later)
    ├── TrainingError                    a training pod gave no proof of a complete model
    │   └── WorkloadFailedError          no node, evicted, deleted, crashed           (later)
    ├── RegistryError                    MLflow answered with something impossible
    │   └── VersionMissingError          there is no such model version: never registered, or deleted
    ├── CacheKeyCollisionError           a version's keys in Redis belong to another model or training run
    ├── LockError
    │   ├── LockHeldError                someone else holds it                       (later)
    │   ├── LockLostError                the lease ran out while we worked           (later)
    │   ├── FencedOutError               a newer token was seen on the target
    │   └── LockRecordError              the lock object holds something that is no lock record
    ├── ServingError                     a serving pod can't answer; workloads/serving/errors.py has its code and status
    │   ├── InvalidInputError            the request is no valid input
    │   │   └── SignatureError           a column is missing or of another type than the model's signature says
    │   ├── TooLargeError                the request is larger than the pod's limits
    │   ├── ContentTypeError             the request's content type is not supported
    │   ├── VersionNotServedError        the caller asked for another model or version than this pod serves
    │   ├── NotReadyError                the pod serves no version yet, or no longer     (later)
    │   ├── OverloadedError              as many requests wait as may                    (later)
    │   ├── BodyTimeoutError             the request did not arrive in time              (later)
    │   ├── AnswerTimeoutError           the answer was not ready in time                (later)
    │   ├── InferenceError               the model failed on this input
    │   └── CacheUnavailableError        the Redis cache can't be used                   (later)
    └── ReleaseError
        ├── ReleaseRefusedError          a check before the rollout said no; nothing was touched
        ├── RolloutFailedError           the candidate did not come up or answered badly; it was undone
        ├── RolloutStalledError          it did not finish, through no fault of the candidate; it was undone (later)
        ├── CleanupRefusedError          something still refers to the version whose keys were to go; none was removed
        └── TargetError                  the Deployment is missing, deleted, or not what the release needs

Errors marked *(later)* may pass by themselves: a retry makes sense. All others are permanent.
"""

from __future__ import annotations

from typing import Any, ClassVar


class RagopsError(Exception):
    """Base of all. ``subject`` is the object, ``action`` the next step for the reader."""

    permanent: ClassVar[bool] = True

    def __init__(self, subject: str, *, expected: str, seen: str, action: str) -> None:
        self.subject = subject
        self.expected = expected
        self.seen = seen
        self.action = action
        super().__init__(f"{subject}: expected {expected}; saw {seen}. {action}")

    def __reduce__(self) -> tuple[Any, ...]:
        # Airflow and multiprocessing pickle exceptions; keyword-only arguments need help.
        return _rebuild, (type(self), self.subject, self.expected, self.seen, self.action)


def _rebuild(kind: type[RagopsError], subject: str, expected: str, seen: str, action: str) -> RagopsError:
    return kind(subject, expected=expected, seen=seen, action=action)


class ConfigurationError(RagopsError, ValueError):
    """A setting that can't work: refused before any effect."""


class PartitionError(ConfigurationError):
    """The partition is missing, not whole UTC days, naive, or in the future."""


class MissingExtraError(ConfigurationError):
    """An optional library is not installed; the message names the extra."""

    @classmethod
    def of(cls, subject: str, library: str, extra: str) -> MissingExtraError:
        return cls(
            subject,
            expected=f"the library {library!r}",
            seen="it is not installed",
            action=f"Install it with: pip install 'airflow-provider-ragops[{extra}]'",
        )


class UnreachableError(RagopsError):
    """A service did not answer within its deadline; the subject carries its address."""

    permanent = False
    #: Seconds that the server asked to be left alone (Retry-After).
    retry_after: float = 0.0


class ClusterError(RagopsError):
    """Kubernetes refused a call; the subject names verb and object."""


class ConflictError(ClusterError):
    """The object was written by someone else since it was read: read again and decide again."""

    permanent = False


class DataError(RagopsError):
    """Data that must not go further."""


class ContractViolationError(DataError):
    """A partition breaks its contract."""


class LeakageError(DataError):
    """A training row carries a value from after its observation time."""


class ModelFilesError(DataError):
    """Files of a RAG model are missing, cut short, or do not belong together."""


class EncoderError(DataError):
    """The base encoder of the image is missing, or is not the one that a version was made with."""


class EmbeddingDimensionError(DataError):
    """Vectors of another dimension than the loaded version's."""


class TokenizerError(DataError):
    """A tokenizer whose vocabulary is not the loaded version's."""


class MaterializationError(DataError):
    """The online store does not answer with what was written."""

    permanent = False


class TrainingError(RagopsError):
    """A training or evaluation pod ended without proof of a complete result."""


class WorkloadFailedError(TrainingError):
    """A pod failed in a way that may pass: no free GPU, evicted, deleted, crashed."""

    permanent = False


class RegistryError(RagopsError):
    """MLflow's answer can't be right, or a version that must exist does not."""


class VersionMissingError(RegistryError):
    """There is no such model version: it was never registered, or was deleted."""


class CacheKeyCollisionError(RagopsError):
    """The marker of a version's keys in Redis names another model, training run or dimension than the loaded one."""


class LockError(RagopsError):
    """Base of the lock's errors."""


class LockHeldError(LockError):
    """Someone else held the lock for as long as we were willing to wait."""

    permanent = False


class LockLostError(LockError):
    """Our lease ran out, or someone took over: no further effect may follow."""

    permanent = False


class FencedOutError(LockError):
    """The target carries a newer token than ours: a competitor went on without us."""


class LockRecordError(LockError):
    """The lock object holds something that is no lock record; it is never stolen."""


class ServingError(RagopsError):
    """Base of what a serving pod answers instead of a prediction.

    ``details`` are further fields of the answer, for programs: which column, which version.
    """

    def __init__(
        self, subject: str, *, expected: str, seen: str, action: str, details: dict[str, Any] | None = None
    ) -> None:
        super().__init__(subject, expected=expected, seen=seen, action=action)
        self.details = details or {}


class InvalidInputError(ServingError):
    """The request is no valid input for the model."""


class SignatureError(InvalidInputError):
    """A column is missing, or of another type than the model's signature says; ``details`` names the columns."""


class TooLargeError(ServingError):
    """The request is larger than the pod's limits."""


class ContentTypeError(ServingError):
    """The content type of the request is not one that the pod reads."""


class VersionNotServedError(ServingError):
    """The caller asked for a model or version that this pod does not serve; another pod may."""


class NotReadyError(ServingError):
    """The pod serves no version yet, or no longer."""

    permanent = False


class OverloadedError(ServingError):
    """As many requests wait as may: this one was not begun."""

    permanent = False


class BodyTimeoutError(ServingError):
    """The caller took too long to send the request."""

    permanent = False


class AnswerTimeoutError(ServingError):
    """The answer was not ready within the pod's time limit."""

    permanent = False


class InferenceError(ServingError):
    """The model raised on this input."""


class CacheUnavailableError(ServingError):
    """The Redis cache can't be used: unreachable, or refused as it is set up."""

    permanent = False


class ReleaseError(RagopsError):
    """Base of the release's errors."""


class ReleaseRefusedError(ReleaseError):
    """A check before the rollout said no; the serving target was not touched."""


class RolloutFailedError(ReleaseError):
    """The new version did not come up or answered badly; the target was set back."""


class RolloutStalledError(ReleaseError):
    """The rollout did not finish, through no fault of the version; the target was set back."""

    permanent = False


class CleanupRefusedError(ReleaseError):
    """Redis keys that someone may still need were to be removed; none was, and the message names who."""


class TargetError(ReleaseError):
    """The serving target is missing, was replaced, or can't be released to."""
