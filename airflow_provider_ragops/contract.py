"""What the DAG side and the pod side agree on: names, keys and small values. Standard library only.

This file is copied into the images, where Airflow is not installed. Its names are a released interface:
objects written by one version are found by the next.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any, TypedDict

from airflow_provider_ragops.exceptions import ConfigurationError, PartitionError

UTC = timezone.utc
ONE_DAY = timedelta(days=1)

# Environment of the pods.
ENV_MODEL_NAME = "MODEL_NAME"
ENV_MODEL_VERSION = "MODEL_VERSION"
ENV_TRACKING_URI = "MLFLOW_TRACKING_URI"
ENV_REDIS_URL = "REDIS_URL"
ENV_REDIS_PREFIX = "REDIS_PREFIX"
ENV_REDIS_USERNAME = "REDIS_USERNAME"
ENV_REDIS_PASSWORD = "REDIS_PASSWORD"  # noqa: S105  the name of the variable
ENV_REDIS_CLUSTER = "REDIS_CLUSTER"
ENV_REDIS_CA = "REDIS_CA_FILE"
ENV_REDIS_CERT = "REDIS_CERT_FILE"
ENV_REDIS_KEY = "REDIS_KEY_FILE"
ENV_REDIS_MAY_EVICT = "REDIS_MAY_EVICT"
ENV_REDIS_BUDGET = "REDIS_BUDGET_MS"
ENV_REDIS_TTL = "REDIS_TTL_SECONDS"
ENV_MODEL_CACHE = "MODEL_CACHE_DIR"
ENV_ATTEMPT = "RAGOPS_ATTEMPT"
ENV_GIT_COMMIT = "RAGOPS_GIT_COMMIT"
ENV_IMAGE = "RAGOPS_IMAGE"

# Exit codes of the workloads that a retry can't help: argparse's own, and an input that was refused.
EXIT_USAGE = 2
EXIT_REFUSED = 3

# Labels and annotations on Kubernetes objects.
LABEL_APP = "app"
LABEL_ATTEMPT = "airflow-provider-ragops/attempt"
LABEL_TASK = "airflow-provider-ragops/task"  # digest of DAG, run, task and map index
LABEL_WORK = "airflow-provider-ragops/work"  # digest of everything that the result depends on
LABEL_PARTITION = "airflow-provider-ragops/partition"
LABEL_BLESSING = "airflow-provider-ragops/blessing"  # the Deployment that a pod beside it speaks for
ANNOTATION_RELEASE = "airflow-provider-ragops/release"

# Tags on MLflow runs and model versions.
TAG_KIND = "ragops.kind"  # contract | training-set | training | evaluation | release
TAG_PARTITION = "ragops.partition"
TAG_DATA_DIGEST = "ragops.data_digest"
TAG_PARAMS_DIGEST = "ragops.params_digest"
TAG_IMAGE = "ragops.image"
TAG_REGISTRATION_KEY = "ragops.registration_key"
TAG_SPLIT_ID = "ragops.split_id"
TAG_CUTOFF = "ragops.cutoff"
TAG_GIT_COMMIT = "ragops.git_commit"
TAG_ATTEMPT = "ragops.attempt"
TAG_COMPLETED = "ragops.completed"  # the completion marker: the attempt that finished, written last
TAG_CANDIDATE = "ragops.candidate"  # on an evaluation run: the version that was scored
TAG_GATE_VERDICT = "ragops.gate.verdict"
TAG_GATE_REPORT = "ragops.gate.report"  # runs:/ URI of the report
TAG_GATE_CHAMPION = "ragops.gate.champion"  # the version judged against, or NO_VERSION
TAG_GATE_CHAMPION_RUN = "ragops.gate.champion_run"  # its training run: a number alone may name another model later
TAG_QUARANTINED = "ragops.quarantined"  # the reason
TAG_RELEASE_ID = "ragops.release_id"
TAG_REPLACED_BY = "ragops.replaced_by"
TAG_MODEL_DIGEST = "ragops.model_digest"  # tree_digest of the model's files, checked before they are unpickled

# Artifact paths inside an MLflow run.
ARTIFACT_MODEL = "model"
ARTIFACT_TRAINING_SET = "training_set"
ARTIFACT_EVALUATION = "evaluation"
ARTIFACT_GATE = "gate"
ARTIFACT_CONTRACT = "contract"

# MLflow answers a question for ``latest`` with the newest version, whatever its aliases are.
RESERVED_ALIAS = re.compile(r"latest|v\d+", re.IGNORECASE)

NO_VERSION = "none"  # tags can't be empty: written where there is no version

ALIAS_CHAMPION = "champion"
ALIAS_CHALLENGER = "challenger"
SERVING_PORT = 5000

# Columns of a training set besides the features.
COLUMN_ENTITY = "user_id"
COLUMN_TIME = "event_timestamp"
COLUMN_LABEL = "churned"
COLUMN_SPLIT = "split"  # train | held_out


SLICE_PREFIX = "slice:"  # begins the columns of an evaluation's predictions that hold each row's slice
COLUMN_CREATED = "created_timestamp"  # when a feature value became knowable

# Layout of partitioned data: {location}/date=YYYY-MM-DD/*.parquet, and the marker once the day is complete.
DAY_PREFIX = "date="
PARTITION_PATTERN = "*.parquet"
PARTITION_MARKER = "_SUCCESS"


def day_folder(day: date) -> str:
    return f"{DAY_PREFIX}{day.isoformat()}"


@dataclass(frozen=True, order=True)
class Partition:
    """Whole UTC days ``[start, end)``. Idempotency is keyed on it, never on a run id."""

    start: datetime
    end: datetime

    def __post_init__(self) -> None:
        for bound in (self.start, self.end):
            if bound.tzinfo is None:
                raise _partition_error(str(bound), "a time zone", "a naive time", "Give UTC days.")
            if bound.astimezone(UTC).time() != datetime.min.time():
                raise _partition_error(str(bound), "midnight UTC", f"{bound:%H:%M:%S%z}",
                                       "Give whole UTC days; in a run by hand, fill in 'partition' in the form.")
        if self.end <= self.start:
            raise _partition_error(
                f"[{self.start}, {self.end})", "at least one whole day", "zero or negative length",
                "In a run by hand, fill in 'partition' in the form; a plain cron schedule gives such intervals, too: "
                "set its timetable explicitly.",
            )
        object.__setattr__(self, "start", self.start.astimezone(UTC))
        object.__setattr__(self, "end", self.end.astimezone(UTC))

    @classmethod
    def of_day(cls, day: date) -> Partition:
        start = datetime(day.year, day.month, day.day, tzinfo=UTC)
        return cls(start, start + ONE_DAY)

    @classmethod
    def parse(cls, key: str) -> Partition:
        """Read ``2026-11-29`` or ``2026-11-01_2026-11-07`` (both days included).

        A range of one day is that day: :attr:`key` gives the one text that a partition is known by.

        :raises PartitionError: when the text is neither.
        """
        first, separator, last = key.partition("_")
        try:
            start, end = (cls.of_day(_day(text)) for text in (first, last if separator else first))
        except (ValueError, OverflowError) as error:
            raise _partition_error(
                repr(key), "YYYY-MM-DD or YYYY-MM-DD_YYYY-MM-DD", repr(key), "Correct the partition."
            ) from error
        return cls(start.start, end.end)

    @classmethod
    def resolve(
        cls,
        *,
        param: str | None,
        partition_key: str | None,
        interval: tuple[datetime, datetime] | None,
        now: datetime,
    ) -> Partition:
        """Find the run's partition: the param, else the partition key, else the data interval; never a guess.

        :raises PartitionError: when none is given, or it is not whole UTC days, or it ends after ``now``.
        """
        if param or partition_key:
            found = cls.parse(str(param or partition_key))
        elif interval:
            found = cls(*interval)
        else:
            raise _partition_error(
                "run", "a partition", "no param, no partition key and no data interval",
                "Fill in 'partition' in the trigger form.",
            )
        if found.end > now:
            raise _partition_error(
                found.key, f"whole days that have ended by {now.isoformat(timespec='seconds')}",
                f"it ends {found.end.isoformat()}", "Wait until the day is over, or choose an earlier one.",
            )
        return found

    @property
    def key(self) -> str:
        first, last = self.start.date(), (self.end - ONE_DAY).date()
        return first.isoformat() if first == last else f"{first.isoformat()}_{last.isoformat()}"

    @property
    def days(self) -> Iterator[date]:
        day = self.start
        while day < self.end:
            yield day.date()
            day += ONE_DAY


def _day(text: str) -> date:
    # fromisoformat alone also takes 20261129 and 2026-W48-7, which would be second keys of the same day.
    if not _DAY.fullmatch(text):
        raise ValueError(text)
    return date.fromisoformat(text)


def _partition_error(subject: str, expected: str, seen: str, action: str) -> PartitionError:
    return PartitionError(f"partition {subject}", expected=expected, seen=seen, action=action)


_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


def dns_name(text: str, limit: int = 63) -> str:
    """Turn any text into a DNS label: unchanged where it is one, else a slug and a hash of the text."""
    if len(text) <= limit and _DNS_LABEL.fullmatch(text):
        return text
    slug = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-") or "x"
    digest = hashlib.sha256(text.encode()).hexdigest()[:8]
    return f"{slug[: limit - 9].rstrip('-')}-{digest}"


def require_alias(alias: str, subject: str) -> None:
    """:raises ConfigurationError: when MLflow reserves the name, or it is empty."""
    if not alias or RESERVED_ALIAS.fullmatch(alias):
        raise ConfigurationError(
            subject, expected="an alias that MLflow does not reserve", seen=repr(alias),
            action="Choose another name: 'latest' and 'v' with a number are taken.",
        )


@dataclass(frozen=True)
class ServingTarget:
    """One place where a model is served; all its names in one value.

    Staging and production are two targets and never share an alias. One cluster per lock.
    """

    namespace: str
    model: str
    deployment: str = "mlflow-serve"
    container: str = "mlflow-serve"
    champion: str = ALIAS_CHAMPION
    challenger: str = ALIAS_CHALLENGER
    redis_prefix: str = ""
    port: int = SERVING_PORT
    #: Where no surge pod fits (the last GPU is taken), a rolling update may take one pod away before its successor.
    allow_unavailable: bool = False

    def __post_init__(self) -> None:
        for field in ("namespace", "deployment", "container"):
            if not _DNS_LABEL.fullmatch(getattr(self, field)):
                raise ConfigurationError(
                    f"serving target {self.namespace}/{self.deployment}",
                    expected=f"a DNS label as {field}", seen=repr(getattr(self, field)), action="Correct the name.",
                )
        for alias in (self.champion, self.challenger):
            require_alias(alias, f"serving target {self.namespace}/{self.deployment}")
        if self.champion == self.challenger:
            raise ConfigurationError(
                f"serving target {self.namespace}/{self.deployment}",
                expected="two different aliases as champion and challenger", seen=repr(self.champion),
                action="Correct one of them: the one that waits is not the one that serves.",
            )
        if not self.model:
            raise ConfigurationError(
                f"serving target {self.namespace}/{self.deployment}",
                expected="the name of a registered model", seen="an empty name", action="Set model.",
            )

    @classmethod
    def of(cls, fields: dict[str, Any]) -> ServingTarget:
        """Make a target from (rendered) fields; numbers and truth values may be text.

        :raises ConfigurationError: naming a field that is unknown, missing, no number, or neither true nor false.
        """
        try:
            port, unavailable = int(fields.get("port", SERVING_PORT)), _truth(fields.get("allow_unavailable", False))
            return cls(**{**fields, "port": port, "allow_unavailable": unavailable})
        except (TypeError, ValueError) as error:
            raise ConfigurationError(
                "serving target", expected=f"the fields {', '.join(cls.__dataclass_fields__)}",
                seen=f"{fields!r}: {error}", action="Correct the target.",
            ) from error

    @property
    def lock_name(self) -> str:
        return dns_name(f"{self.deployment}-release-lock")

    @property
    def service(self) -> str:
        return self.deployment

    @property
    def slug(self) -> str:
        return f"{self.namespace}/{self.deployment}"

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def _truth(value: Any) -> bool:
    # The text "False", as a template renders it, would be true.
    if (text := str(value).lower()) not in ("true", "false"):
        raise ValueError(f"{value!r} is neither true nor false")
    return text == "true"


class TrainingResult(TypedDict):
    """What the training pod leaves in XCom. A hint for the reader; the proof is in MLflow."""

    model: str
    version: str
    run_id: str
    attempt: str
    reused: bool


def decompose_key(prefix: str, version: str, customer_id: str, query_digest: str) -> str:
    return f"{prefix}rag_decompose:v{version}:customer_id={customer_id}:{query_digest}"


def customer_part(customer_id: str, *, is_tag: bool = False) -> str:
    """How a customer's id stands in a key: as it is where it is short and plain, else ``~`` and a digest of it.

    So a key never holds a brace, a glob character, a line break or a megabyte that a caller chose.

    :param is_tag: write it in braces, as the hash tag of a cluster: one slot per customer.
    """
    plain = customer_id if _PLAIN.fullmatch(customer_id) else f"~{text_digest(customer_id).hex()[:32]}"
    return f"{{{plain}}}" if is_tag else plain


_PLAIN = re.compile(r"[0-9A-Za-z_.@-]{1,64}")


def text_digest(*parts: str) -> bytes:
    """SHA-256 of texts in order; other texts, or the same ones cut elsewhere, give another digest."""
    total = hashlib.sha256()
    for part in parts:
        raw = part.encode(errors="surrogatepass")  # JSON can carry half of a surrogate pair
        total.update(len(raw).to_bytes(8, "big") + raw)
    return total.digest()


def store_prefix(prefix: str, version: str) -> str:
    return f"{prefix}rag_store:v{version}:"


def version_patterns(prefix: str, version: str) -> tuple[str, str]:
    """Exact key prefixes of one version. The colon ends the number: ``v1:`` does not match ``v10:``."""
    return f"{prefix}rag_decompose:v{version}:", store_prefix(prefix, version)


# Fields of the marker, a hash: whose keys the version's are, by registered model and training run.
MARKER_MODEL = "model"
MARKER_RUN = "run"
MARKER_DIMENSION = "dimension"


def marker_key(prefix: str, version: str) -> str:
    return f"{prefix}rag_meta:v{version}"


def digest(*parts: str) -> str:
    """A short stable digest of ordered text parts (16 hex digits of SHA-256)."""
    return hashlib.sha256("\x1f".join(parts).encode()).hexdigest()[:16]


def file_digest(path: str | Path) -> str:
    """Names a training set by its file: the first 16 hex digits of the SHA-256 of its bytes."""
    with Path(path).open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()[:16]


def registration_key(model: str, partition: str, data_digest: str, params_digest: str, image: str) -> str:
    """Names the work of one training: equal keys mean the same version, made once."""
    return digest(model, partition, data_digest, params_digest, image)


def is_completed(marker: str | None, run_status: str, run_tags: Mapping[str, str]) -> bool:
    """Proof of a finished attempt: the run is FINISHED and carries the same completion marker as its version.

    :param marker: the version's tag :data:`TAG_COMPLETED`; None or empty where it has none.
    """
    return bool(marker) and run_status == "FINISHED" and run_tags.get(TAG_COMPLETED) == marker


def tree_digest(folder: Path) -> str:
    """Digest a downloaded model directory: SHA-256 (64 hex digits) over its sorted relative paths and contents.

    Independent of times, owners, empty folders and where the directory lies.
    """
    total = hashlib.sha256()
    files = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
    for name in sorted(files.keys() - {_MLFLOW_DOWNLOAD_NOTE}):
        with files[name].open("rb") as content:
            total.update(f"{name}\0{hashlib.file_digest(content, 'sha256').hexdigest()}\n".encode())
    return total.hexdigest()


# MLflow writes this file beside a model downloaded by models:/name/version, not by runs:/.
_MLFLOW_DOWNLOAD_NOTE = "registered_model_meta"


def split_of(model: str, entity: str, held_out_share: float = 0.2) -> str:
    """Choose ``train`` or ``held_out`` by a stable hash of the entity, salted per model.

    An entity keeps its side for ever, in every training set of the model.
    """
    position = int(hashlib.sha256(f"{model}\x1f{entity}".encode()).hexdigest()[:8], 16) / 0x100000000
    return "held_out" if position < held_out_share else "train"


def split_id(model: str, held_out_share: float = 0.2) -> str:
    """Names the split rule; two versions are compared only when theirs are equal."""
    return digest("sha256-entity", model, f"{held_out_share:.6f}")
