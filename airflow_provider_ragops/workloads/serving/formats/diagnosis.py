"""What is wrong with a refused request, by column: names and types, never the caller's values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from airflow_provider_ragops.exceptions import SignatureError
from airflow_provider_ragops.workloads.serving.formats.signature import Column, Columns

# What a value of these may be in JSON; text only where it reads as a number.
_ACCEPTED: dict[str, tuple[type, ...]] = {
    "boolean": (bool,), "integer": (int,), "long": (int,), "float": (int, float), "double": (int, float),
    "string": (str,), "datetime": (str,), "binary": (str,),
}
_NUMBERS = ("integer", "long", "float", "double")
_WORDS = {
    "str": "text", "bool": "true or false", "int": "a whole number", "float": "a number", "NoneType": "null",
    "list": "a list", "dict": "an object",
}
MOST_TOLD = 20


def signature_error(subject: str, columns: Columns, decoded: Any) -> SignatureError | None:
    """The columns that are missing or of another type; None where that is not what is wrong."""
    table = _table(decoded)
    if table is None:
        return None
    missing = [column.name for column in columns.all if column.required and column.name not in table]
    wrong = {
        column.name: fault for column in columns.all if column.name in table
        if (fault := _fault(column, table[column.name]))
    }
    if not missing and not wrong:
        return None
    told = [f"column {name!r} is missing" for name in missing] + [f"column {name!r} {wrong[name]}" for name in wrong]
    more = f" and {len(told) - MOST_TOLD} more" if len(told) > MOST_TOLD else ""
    return SignatureError(
        subject, expected="the columns of the model's signature", seen="; ".join(told[:MOST_TOLD]) + more,
        action="Send every required column with values of its type.", details={"columns": [*missing, *wrong]},
    )


def _fault(column: Column, values: list[Any]) -> str:
    accepted = _ACCEPTED.get(column.kind)
    for place, value in enumerate(values if accepted else ()):
        if not _fits(column, value, accepted or ()):
            return f"must be {column.kind}, and row {place} holds {_WORDS.get(type(value).__name__, 'something else')}"
    return ""


def _fits(column: Column, value: Any, accepted: tuple[type, ...]) -> bool:
    if value is None:
        return column.kind not in ("integer", "long")
    if isinstance(value, str) and column.kind in _NUMBERS:
        return _reads_as_number(value)
    # MLflow casts numbers and truth values to one another
    castable = isinstance(value, (bool, int, float)) and column.kind in (*_NUMBERS, "boolean")
    return castable or isinstance(value, accepted)


def _reads_as_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _table(decoded: Any) -> dict[str, list[Any]] | None:
    """Column to values, of a request in any of the JSON formats; None where it is none."""
    if not isinstance(decoded, dict):
        return None
    for name, read in (("dataframe_split", _split), ("dataframe_records", _records), ("instances", _records),
                       ("inputs", _inputs)):
        if name in decoded:
            return read(decoded[name])
    return None


def _split(content: Any) -> dict[str, list[Any]] | None:
    if not isinstance(content, dict):
        return None
    names, rows = content.get("columns"), content.get("data")
    if not isinstance(names, list) or not isinstance(rows, list):
        return None
    found = [row for row in rows if isinstance(row, list) and len(row) == len(names)]
    return {str(name): [row[place] for row in found] for place, name in enumerate(names)}


def _records(content: Any) -> dict[str, list[Any]] | None:
    if not isinstance(content, list) or not content or not all(isinstance(row, dict) for row in content):
        return None
    return {str(name): [row.get(name) for row in content] for name in dict.fromkeys(_keys(content))}


def _keys(rows: list[dict[str, Any]]) -> Iterator[str]:
    for row in rows:
        yield from row


def _inputs(content: Any) -> dict[str, list[Any]] | None:
    if isinstance(content, list):
        return _records(content)
    if not isinstance(content, dict):
        return None
    return {str(name): values if isinstance(values, list) else [values] for name, values in content.items()}
