"""Values that came through a template arrive as text: read them back, or say which field is wrong."""

from __future__ import annotations

from typing import Any

from airflow_provider_ragops.exceptions import ConfigurationError

_TRUE = frozenset({"true", "1", "yes", "on"})
_FALSE = frozenset({"false", "0", "no", "off", "none", ""})


def number(field: str, value: Any) -> float:
    """:raises ConfigurationError: when the value is no number."""
    try:
        return float(value)
    except (TypeError, ValueError) as error:
        raise _error(field, "a number", value) from error


def whole_number(field: str, value: Any) -> int:
    """:raises ConfigurationError: when the value is no whole number."""
    found = number(field, value)
    if not found.is_integer():
        raise _error(field, "a whole number", value)
    return int(found)


def truth(field: str, value: Any) -> bool:
    """:raises ConfigurationError: when the value is neither a bool nor one of true, false, yes, no, on, off."""
    text = str(value).strip().lower()
    if text in _TRUE or text in _FALSE:
        return text in _TRUE
    raise _error(field, "true or false", value)


def required(field: str, value: Any) -> str:
    """:raises ConfigurationError: when the value is empty, or was rendered from None."""
    found = optional(value)
    if found is None:
        raise _error(field, "a value", value)
    return found


def optional(value: Any) -> str | None:
    """The text, or None where it is empty or the word that Jinja and our tags write for "no value"."""
    text = str(value).strip()
    return None if text.lower() in ("", "none") else text


def _error(field: str, expected: str, value: Any) -> ConfigurationError:
    return ConfigurationError(
        f"parameter {field!r}", expected=expected, seen=repr(value), action="Correct the parameter or its template.",
    )  # fmt: skip
