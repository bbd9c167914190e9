"""The usual requests, from JSON to the frame that MLflow would give the model.

Where MLflow's time goes, for one row of eight columns: two thirds of it into casting and checking each column as a
pandas Series twice (once after parsing, once in ``predict``), a tenth into turning the prediction into records. Here a
column is a list whose Python types are looked at once, and the frame is built once, around one array, with the memory
layout that MLflow's has (columns one after the other), so that a model adds up in the same order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from airflow_provider_ragops.workloads.serving.formats.signature import Columns

# Of a number in a request: beyond these MLflow's detour over another type may give another value.
_LONG = 2**63
_INTEGER = 2**31
_EXACT_IN_FLOAT = 2**24
_FLOAT_MAX = 3.4e38

Values = Sequence[Any]


class NotDirect(Exception):
    """Left to MLflow's own parser: not a verdict."""


class DirectReader:
    """Reads requests for one signature."""

    def __init__(self, columns: Columns) -> None:
        import numpy as np
        import pandas as pd

        self._np, self._pd = np, pd
        self._names = columns.names
        self._set = frozenset(columns.names)
        self._arrays: list[Callable[[Values], Any]] = [getattr(self, f"_{column.kind}") for column in columns.all]
        self._index = pd.Index(columns.names)
        kinds = {column.kind for column in columns.all}
        self._one_type = self._dtype(kinds.pop()) if len(kinds) == 1 else None

    def frame(self, decoded: Any) -> Any:
        """The frame for the model.

        :raises NotDirect: for everything but the plain formats with exactly the signature's columns and plain values.
        """
        if type(decoded) is not dict or len(decoded) != 1:
            raise NotDirect
        ((name, content),) = decoded.items()
        if name == "dataframe_split":
            columns = self._of_split(content)
        elif name in ("dataframe_records", "instances"):
            columns = self._of_records(content)
        elif name == "inputs":
            columns = self._of_lists(content)
        else:
            raise NotDirect
        if name in ("instances", "inputs"):
            _refuse_trailing_nul(columns)
        return self._built(columns)

    def _of_split(self, content: Any) -> Iterable[Values]:
        if type(content) is not dict or content.keys() != {"columns", "data"}:
            raise NotDirect
        names, rows = content["columns"], content["data"]
        if type(names) is not list or type(rows) is not list or not rows or set(map(type, rows)) != {list}:
            raise NotDirect
        if any(type(name) is not str for name in names) or len(names) != len(self._names) or set(names) != self._set:
            raise NotDirect
        if set(map(len, rows)) != {len(names)}:
            raise NotDirect
        values = list(zip(*rows, strict=True))
        if tuple(names) == self._names:
            return values
        by_name = dict(zip(names, values, strict=True))
        return [by_name[name] for name in self._names]

    def _of_records(self, content: Any) -> Iterable[Values]:
        if type(content) is not list or not content or set(map(type, content)) != {dict}:
            raise NotDirect
        if any(row.keys() != self._set for row in content):
            raise NotDirect
        return [[row[name] for row in content] for name in self._names]

    def _of_lists(self, content: Any) -> Iterable[Values]:
        if type(content) is not dict or content.keys() != self._set:
            raise NotDirect
        values = [content[name] for name in self._names]
        if set(map(type, values)) != {list} or len(set(map(len, values))) != 1 or not values[0]:
            raise NotDirect
        return values

    def _built(self, columns: Iterable[Values]) -> Any:
        np, pd = self._np, self._pd
        try:
            arrays = [convert(values) for convert, values in zip(self._arrays, columns, strict=True)]
        except OverflowError as error:
            raise NotDirect from error
        if self._one_type is None:
            return pd.DataFrame(dict(zip(self._names, arrays, strict=True)))
        block = np.empty((len(arrays), len(arrays[0])), dtype=self._one_type)
        for place, array in enumerate(arrays):
            block[place] = array
        # view: a model that renames the index of its frame must not rename that of the next request
        return pd.DataFrame(block.T, columns=self._index.view(), copy=False)

    def _dtype(self, kind: str) -> Any:
        names = {"boolean": "bool", "integer": "int32", "long": "int64", "float": "float32", "double": "float64"}
        return self._np.dtype(names.get(kind, "object"))

    def _double(self, values: Values) -> Any:
        if not {float, int, type(None)}.issuperset(map(type, values)):
            raise NotDirect
        return self._np.array(values, dtype="float64")

    def _float(self, values: Values) -> Any:
        np = self._np
        kinds = set(map(type, values))
        if not {float, int}.issuperset(kinds):
            raise NotDirect
        if int in kinds and any(type(value) is int and abs(value) > _EXACT_IN_FLOAT for value in values):
            raise NotDirect
        doubles = np.array(values, dtype="float64")
        if (np.abs(doubles[np.isfinite(doubles)]) > _FLOAT_MAX).any():
            raise NotDirect
        return doubles.astype("float32")

    def _long(self, values: Values) -> Any:
        return self._whole(values, _LONG, "int64")

    def _integer(self, values: Values) -> Any:
        return self._whole(values, _INTEGER, "int32")

    def _whole(self, values: Values, bound: int, dtype: str) -> Any:
        if set(map(type, values)) != {int} or not -bound <= min(values) <= max(values) < bound:
            raise NotDirect
        return self._np.array(values, dtype=dtype)

    def _boolean(self, values: Values) -> Any:
        return self._exactly(bool, values, "bool")

    def _string(self, values: Values) -> Any:
        return self._exactly(str, values, "object")

    def _exactly(self, kind: type, values: Values, dtype: str) -> Any:
        if set(map(type, values)) != {kind}:
            raise NotDirect
        return self._np.array(values, dtype=dtype)


def _refuse_trailing_nul(columns: Iterable[Values]) -> None:
    """MLflow's way goes over numpy's fixed-width text there, which loses them."""
    if any(type(value) is str and value.endswith("\0") for values in columns for value in values):
        raise NotDirect
