"""Checks a frame against a Pandera schema and the partition's days, and gathers every violation.

Pandera's own errors carry the whole frame; nothing of it leaves this file but counts and a few examples.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from airflow_provider_ragops.contract import COLUMN_TIME, Partition
from airflow_provider_ragops.exceptions import ConfigurationError, MissingExtraError
from airflow_provider_ragops.import_path import load, refusal
from airflow_provider_ragops.validation.report import (
    MAX_EXAMPLES,
    MAX_FAILURES,
    CheckFailure,
    ContractReport,
    shorten,
)

if TYPE_CHECKING:
    import pandas as pd

_EXPECTED = "a Pandera DataFrameSchema or DataFrameModel"
_SWITCH = "PANDERA_VALIDATION_ENABLED"
# For these, Pandera puts the column into the failure case and leaves the column empty.
_COLUMN_CHECKS = {"column_in_dataframe": "column is present", "column_in_schema": "column is in the contract"}


def load_schema(path: str) -> Any:
    """Import a Pandera schema or model by ``package.module:attribute``.

    :raises ConfigurationError: when the path does not lead to one, or Pandera is switched off.
    """
    if os.environ.get(_SWITCH, "True").lower() == "false":
        raise ConfigurationError(
            f"contract {path}", expected="Pandera validation switched on", seen=f"{_SWITCH}=False",
            action="Unset the variable: with it every check would pass unseen.",
        )
    try:
        import pandera.pandas as pa
    except ImportError as error:
        raise MissingExtraError.of(f"contract {path}", "pandera", "pandera") from error
    found = load(path, subject="contract", expected=_EXPECTED)
    found = found.to_schema() if hasattr(found, "to_schema") else found  # a DataFrameModel
    if not isinstance(found, pa.DataFrameSchema):
        raise refusal(path, subject="contract", expected=_EXPECTED, seen=f"a {type(found).__name__}")
    return found


def check(
    frame: pd.DataFrame, schema: Any, partition: Partition, *, name: str = "", time_column: str = COLUMN_TIME
) -> ContractReport:
    """Validate lazily, so that the report names all violations at once.

    Beyond the schema, each row's time must lie in the partition: a row of another day would be counted there
    by nobody, and a row of the future would leak.
    """
    from pandera.errors import SchemaErrors

    failures: list[CheckFailure] = []
    try:
        schema.validate(frame, lazy=True)
    except SchemaErrors as error:
        failures += _failures(error.failure_cases)
    failures += _outside(frame, partition, time_column)
    failures.sort(key=lambda failure: (failure.column, failure.check))
    return ContractReport(
        name or str(schema.name), partition.key, len(frame), tuple(failures[:MAX_FAILURES]),
        max(0, len(failures) - MAX_FAILURES),
    )


def _failures(cases: pd.DataFrame) -> Iterator[CheckFailure]:
    for (column, name), group in cases.groupby(["column", "check"], dropna=False, sort=False):
        values = [shorten(value) for value in group["failure_case"].head(MAX_EXAMPLES)]
        if name in _COLUMN_CHECKS:
            for value in group["failure_case"].head(MAX_FAILURES):
                yield CheckFailure(str(value), _COLUMN_CHECKS[name], 1, ())
        else:
            label = column if isinstance(column, str) else "(row)"
            yield CheckFailure(label, shorten(name), len(group), tuple(values))


def _outside(frame: pd.DataFrame, partition: Partition, time_column: str) -> Iterator[CheckFailure]:
    import pandas as pd

    if time_column not in frame or not isinstance(frame[time_column].dtype, pd.DatetimeTZDtype):
        return  # missing or naive: the schema says so
    times = frame[time_column]
    for label, wrong in (
        (f"not before the partition's start {partition.start.isoformat()}", times < partition.start),
        (f"not after the partition's end {partition.end.isoformat()} (future)", times >= partition.end),
    ):
        if wrong.any():
            examples = tuple(value.isoformat() for value in times[wrong].head(MAX_EXAMPLES))
            yield CheckFailure(time_column, label, int(wrong.sum()), examples)
