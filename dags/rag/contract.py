"""The contract of the question-passage pairs: one row per question, one folder per UTC day.

A passage may answer several questions; an id of a passage names its text, its title and its module.
"""

from __future__ import annotations

# Imported by path from inside the validation operator only.
import pandas as pd  # noqa: TID253
import pandera.pandas as pa  # noqa: TID253

LEAST_PAIRS = 50  # fewer are no collection: an export that was cut short


def _one_text(frame: pd.DataFrame) -> pd.Series[bool]:
    different = frame[["passage_id", "module", "title", "passage"]].drop_duplicates()["passage_id"]
    return ~frame["passage_id"].isin(set(different[different.duplicated()]))


def _text(longest: int) -> pa.Column:
    return pa.Column(str, [pa.Check.str_matches(r"\S"), pa.Check.str_length(1, longest)])


pairs = pa.DataFrameSchema(
    {
        "pair_id": pa.Column(str, pa.Check.str_matches(r"^[0-9a-f]{16}$"), unique=True),
        "passage_id": pa.Column(str, pa.Check.str_matches(r"^[0-9a-f]{16}$")),
        "source": pa.Column(str, pa.Check.isin(["documentation", "policy"])),
        "library": _text(100),
        "module": _text(300),
        "title": _text(300),
        "question": _text(1000),
        "passage": _text(4000),
        "event_timestamp": pa.Column("datetime64[us, UTC]"),
    },
    checks=[
        pa.Check(_one_text, name="one_text_for_each_passage_id"),
        pa.Check(lambda frame: len(frame) >= LEAST_PAIRS, name=f"at_least_{LEAST_PAIRS}_pairs"),
    ],
    name="pairs",
    strict=True,
    ordered=False,
)
