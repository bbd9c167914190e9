from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from airflow_provider_ragops.exceptions import ConfigurationError
from airflow_provider_ragops.operators import rendered


@pytest.mark.parametrize(
    ("read", "value", "expected"),
    [
        (rendered.number, "0.7", 0.7), (rendered.number, 1, 1.0), (rendered.whole_number, "200", 200),
        (rendered.whole_number, 5.0, 5), (rendered.truth, "True", True), (rendered.truth, False, False),
        (rendered.truth, "None", False), (rendered.truth, " on ", True), (rendered.required, " 3 ", "3"),
    ],
)  # fmt: skip
def test_text_is_read_back(read: Callable[[str, Any], Any], value: Any, expected: Any) -> None:
    """What Jinja turned into text comes back as what it was."""
    assert read("field", value) == expected


@pytest.mark.parametrize(
    ("read", "value"),
    [
        (rendered.number, "much"), (rendered.number, None), (rendered.number, ""), (rendered.whole_number, "2.5"),
        (rendered.whole_number, "nan"), (rendered.truth, "maybe"), (rendered.required, "None"), (rendered.required, ""),
    ],
)  # fmt: skip
def test_nonsense_names_the_field(read: Callable[[str, Any], Any], value: Any) -> None:
    """A value that can't be read is an error that names field and value."""
    with pytest.raises(ConfigurationError, match=f"parameter 'field'.*saw {value!r}"):
        read("field", value)


@pytest.mark.parametrize(("value", "expected"), [("none", None), (None, None), ("", None), ("None", None), ("2", "2")])
def test_no_version_is_none(value: Any, expected: str | None) -> None:
    """The word for "no version" in tags and templates is None here."""
    assert rendered.optional(value) == expected
