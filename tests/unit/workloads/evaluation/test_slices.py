from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from airflow_provider_ragops.exceptions import ConfigurationError, DataError
from airflow_provider_ragops.workloads.evaluation import arguments
from airflow_provider_ragops.workloads.evaluation.slices import Slice, columns, parse
from airflow_provider_ragops.workloads.training_set import TrainingSet


def _data(**values: object) -> TrainingSet:
    held_out = pd.DataFrame(values)
    return TrainingSet("runs:/r/t", "d", tuple(values), held_out, held_out)


def test_names_are_read() -> None:
    """Text with commas: quantile groups with a number, values as they are without; empty text is no slice."""
    assert parse("tenure_days:4, country") == (Slice("tenure_days", 4), Slice("country", None))
    assert [each.name for each in parse("tenure_days:4,country,")] == ["tenure_days:4", "country"]
    assert parse(" ") == ()


@pytest.mark.parametrize("text", ["a:1", "a:21", "a:x", ":4", "a:", "a:4:2", "a:4,b,a:4", "a b:"])
def test_impossible_names_are_refused(text: str) -> None:
    """A slice that can't be cut is refused with its text, before a pod exists."""
    with pytest.raises(ConfigurationError, match=r"slice '.*expected FEATURE or FEATURE:N with N from 2 to 20"):
        parse(text)


def test_the_command_line_takes_them() -> None:
    """The pod reads the operator's text; without it there are no slices; a mistake ends with usage."""
    given = ["--model", "M", "--candidate", "2", "--champion", "1", "--data", "runs:/r/t", "--data-digest", "d",
             "--partition", "2026-11-29"]  # fmt: skip
    assert arguments.parse([*given, "--slices", "a:3,b"]).slices == (Slice("a", 3), Slice("b", None))
    assert arguments.parse(given).slices == ()
    with pytest.raises(SystemExit):
        arguments.parse([*given, "--slices", "a:99"])


def test_quantile_groups_are_of_equal_size_and_say_their_range() -> None:
    """Four quarters of 400 different values: 100 rows each, in the order of the values, ends named."""
    values = np.random.default_rng(1).permutation(400).astype(float)

    (groups,) = columns((Slice("t", 4),), _data(t=values)).values()

    found = pd.Series(groups)
    assert found.value_counts().to_dict() == {
        "1 of 4: 0 to 99": 100, "2 of 4: 100 to 199": 100, "3 of 4: 200 to 299": 100, "4 of 4: 300 to 399": 100,
    }  # fmt: skip
    assert [groups[list(values).index(value)][0] for value in (99, 100)] == ["1", "2"]


def test_equal_values_are_never_cut_apart() -> None:
    """Where most rows share a value there are fewer groups; each value is in exactly one."""
    values = np.array([0.0] * 80 + [1.0] * 10 + [2.0] * 10)

    (groups,) = columns((Slice("t", 4),), _data(t=values)).values()

    low, high = "1 of 2: 0 to 0", "2 of 2: 1 to 2"
    assert dict(zip(values, groups, strict=True)) == {0.0: low, 1.0: high, 2.0: high}


def test_missing_values_are_a_group_of_their_own() -> None:
    """A row without the value belongs to no quantile; a column without any value is one group."""
    found = columns(
        (Slice("t", 2), Slice("c", None), Slice("e", 2)),
        _data(t=[1.0, np.nan, 3.0], c=[1.0, 0.5, np.nan], e=[np.nan] * 3),
    )

    assert found == {
        "slice:t:2": ["1 of 2: 1 to 1", "missing", "2 of 2: 3 to 3"], "slice:c": ["1", "0.5", "missing"],
        "slice:e:2": ["missing"] * 3,
    }  # fmt: skip


def test_slices_that_the_data_do_not_have_are_named() -> None:
    """No such feature, or a feature with too many values to be groups: an error that says what to write."""
    data = _data(a=np.arange(21.0), b=np.zeros(21))
    with pytest.raises(DataError, match="slice 'z': expected one of the features a, b"):
        columns((Slice("z", None),), data)
    with pytest.raises(DataError, match=r"saw 21 in 21 held-out rows. Cut it into groups, for example 'a:4'"):
        columns((Slice("a", None),), data)
