"""Slices of the held-out rows: groups in which a candidate may lose although it does not lose on the whole.

A slice is named by a feature: ``tenure_days:4`` cuts the rows into four groups of about equal size by its
quantiles; ``country`` takes each of its values as a group. Reading the names needs the standard library only: the
operator does it before a pod exists.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_provider_ragops.contract import SLICE_PREFIX
from airflow_provider_ragops.exceptions import ConfigurationError, DataError

if TYPE_CHECKING:
    import pandas as pd

    from airflow_provider_ragops.workloads.training_set import TrainingSet

MOST_GROUPS = 20
MISSING = "missing"
_SPEC = re.compile(r"(?P<column>[^,:\s][^,:]*)(:(?P<groups>\d+))?")


@dataclass(frozen=True)
class Slice:
    """``groups`` is None where each value of the column is a group of its own."""

    column: str
    groups: int | None

    @property
    def name(self) -> str:
        return self.column if self.groups is None else f"{self.column}:{self.groups}"


def parse(text: str) -> tuple[Slice, ...]:
    """Read ``tenure_days:4, country``; empty text means no slices.

    :raises ConfigurationError: when a part is no slice, asks for too many groups, or comes twice.
    """
    found: dict[str, Slice] = {}
    for part in filter(None, (each.strip() for each in text.split(","))):
        match = _SPEC.fullmatch(part)
        groups = match and match["groups"]
        if not match or (groups and not 2 <= int(groups) <= MOST_GROUPS) or part in found:
            raise ConfigurationError(
                f"slice {part!r}", expected=f"FEATURE or FEATURE:N with N from 2 to {MOST_GROUPS}, each once",
                seen=repr(text), action="Correct the slices, for example 'tenure_days:4, country'.",
            )
        found[part] = Slice(match["column"], int(groups) if groups else None)
    return tuple(found.values())


def columns(slices: tuple[Slice, ...], data: TrainingSet) -> dict[str, list[str]]:
    """The group of each held-out row, by the name of the predictions' column.

    :raises DataError: when a slice's feature is not in the training set, or has too many values to be groups.
    """
    for each in slices:
        if each.column not in data.features:
            raise DataError(
                f"slice {each.name!r}", expected=f"one of the features {', '.join(data.features)}",
                seen="no such feature", action="Correct the slices of the evaluation.",
            )
    return {f"{SLICE_PREFIX}{each.name}": _groups(each, data.held_out[each.column]) for each in slices}


def _groups(wanted: Slice, values: pd.Series[Any]) -> list[str]:
    known = values.dropna()
    if wanted.groups is None:
        names = {value: f"{value:.12g}" for value in sorted(known.unique())}
    else:
        names = _quantile_groups(known, wanted.groups)
    if len(set(names.values())) > MOST_GROUPS:
        raise DataError(
            f"slice {wanted.name!r}", expected=f"at most {MOST_GROUPS} different values",
            seen=f"{len(names)} in {len(values)} held-out rows",
            action=f"Cut it into groups, for example '{wanted.column}:4'.",
        )
    return [names.get(value, MISSING) for value in values]


def _quantile_groups(known: pd.Series[Any], groups: int) -> dict[float, str]:
    """The group of each value; fewer groups where many rows share a value. A value is in one group only."""
    import numpy as np

    different = np.unique(known)
    if not len(different):
        return {}
    edges = np.unique(np.quantile(known, np.arange(1, groups) / groups, method="inverted_cdf"))
    numbers = np.searchsorted(edges, different, side="left")
    inside = [different[numbers == number] for number in np.unique(numbers)]
    return {
        value: f"{position} of {len(inside)}: {group[0]:.6g} to {group[-1]:.6g}"
        for position, group in enumerate(inside, start=1) for value in group
    }  # fmt: skip
