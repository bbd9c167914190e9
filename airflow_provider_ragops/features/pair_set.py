"""From a partition of question-passage pairs to what the pods train on: one day's rows, split by module. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_ragops.contract import COLUMN_SPLIT, COLUMN_TIME, split_of
from airflow_provider_ragops.exceptions import DataError

if TYPE_CHECKING:
    import pandas as pd

KEY, MODULE = "pair_id", "module"


def split_pairs(frame: pd.DataFrame, model: str) -> pd.DataFrame:
    """The pairs of the newest day, in the order of their ids, with their side of the split.

    Each day holds the whole collection as it was on that day: earlier days of a longer partition are older states of
    it. A module is on one side whole: passages of one module are alike.

    :raises DataError: when a column is missing.
    """
    if missing := [name for name in (KEY, MODULE, COLUMN_TIME) if name not in frame.columns]:
        raise DataError(
            "question-passage pairs", expected=f"the columns {KEY}, {MODULE} and {COLUMN_TIME}",
            seen=f"no {', '.join(missing)}", action="Write the partition again, with these columns.",
        )
    days = frame[COLUMN_TIME].dt.floor("D")
    newest = frame[days == days.max()].sort_values(KEY, ignore_index=True)
    sides = {module: split_of(model, str(module)) for module in newest[MODULE].unique()}
    return newest.assign(**{COLUMN_SPLIT: newest[MODULE].map(sides)})
