"""What can't be trained on is refused, with the column and the count."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd
import pytest

from airflow_provider_ragops import contract
from airflow_provider_ragops.exceptions import DataError
from airflow_provider_ragops.features.pair_set import split_pairs
from airflow_provider_ragops.workloads.rag import pairs
from tests.unit.workloads.rag.retrievers import MODEL, frame, pair_set


def test_no_held_out_passage_was_trained_on() -> None:
    """Modules, and so passages and all their questions, are on one side; every passage is searched."""
    data = pair_set()
    assert not set(data.train["module"]) & set(data.held_out["module"])
    assert not set(data.train["passage_id"]) & set(data.held_out["passage_id"])
    assert len(data.train) + len(data.held_out) == 126
    assert len(data.passages) == 63
    assert {contract.split_of(MODEL, module) for module in data.held_out["module"]} == {"held_out"}


Change = Callable[[pd.DataFrame], pd.DataFrame]
CASES: dict[str, tuple[Change, str]] = {
    "column": (lambda rows: rows.drop(columns="question"), "no question"),
    "empty": (lambda rows: rows.head(0), "two passages or more in split 'train'; saw 0"),
    "no text": (
        lambda rows: rows.assign(question=[None, " ", *rows["question"][2:]]), "'question'; saw 2 rows without",
    ),
    "numbers": (lambda rows: rows.assign(passage=1), "'passage'; saw 126 rows without"),
    "two texts": (lambda rows: rows.assign(passage_id="a"), "for each passage id; saw"),
    "sides": (lambda rows: rows.assign(split=rows["split"].iloc[::-1].to_numpy()), "rows on another side"),
    "one side": (lambda rows: rows[rows["split"] == "train"], "in split 'held_out'; saw 0"),
}  # fmt: skip


@pytest.mark.parametrize(("change", "text"), CASES.values(), ids=CASES.keys())
def test_bad_pairs_are_refused(change: Change, text: str) -> None:
    """Missing columns and texts, an id with two texts, a row on the wrong side."""
    with pytest.raises(DataError, match=text):
        pairs.check(change(frame()), uri="runs:/r/t", digest="d", model=MODEL)


def test_split_of_another_model_is_refused() -> None:
    """The split is salted by model: pairs split for another one are not taken."""
    with pytest.raises(DataError, match="rows on another side"):
        pairs.check(frame("another"), uri="runs:/r/t", digest="d", model=MODEL)


def test_newest_day_is_the_collection() -> None:
    """Of a longer partition the newest day counts: earlier days are older states of the same collection."""
    today = frame().drop(columns="split")
    before = today.assign(event_timestamp=today["event_timestamp"] - contract.ONE_DAY).head(3)
    found = split_pairs(pd.concat([today, before]), MODEL)
    pd.testing.assert_frame_equal(found, frame())


def test_missing_columns_are_named() -> None:
    """A partition without modules can't be split."""
    with pytest.raises(DataError, match="no module"):
        split_pairs(frame().drop(columns="module"), MODEL)
