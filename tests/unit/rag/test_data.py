"""The RAG example's data: documentation of installed libraries, and a policy corpus; both deterministic."""

from __future__ import annotations

from collections import Counter
from datetime import date, timedelta
from pathlib import Path

import pandas as pd
import pytest
from demo.paths import ROOT
from packaging.utils import canonicalize_name
from rag import contract, documentation, partitions, policies
from rag.documentation import Pair

from airflow_provider_ragops.contract import Partition
from airflow_provider_ragops.exceptions import ContractViolationError
from airflow_provider_ragops.validation.check import check

DAY = date(2026, 11, 29)
FEW = ("click", "requests")


@pytest.fixture(scope="module")
def few() -> list[Pair]:
    """The pairs of two small libraries and of the policies: read from files, in a second."""
    return partitions.collection(FEW)


def test_libraries_are_pinned() -> None:
    """The same set on every machine: each library is in constraints.txt, and no other is read."""
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pinned = {canonicalize_name(line.partition("==")[0]) for line in lines if "==" in line}
    assert {canonicalize_name(name) for name in documentation.LIBRARIES} <= pinned
    assert len(set(documentation.LIBRARIES)) == len(documentation.LIBRARIES)


def test_documentation_is_the_same_again(few: list[Pair]) -> None:
    """Read twice, in the same order; no question and no passage twice, and of bounded length."""
    found = [pair for pair in few if pair.source == "documentation"]
    assert documentation.pairs(FEW) == found
    assert set(Counter(pair.library for pair in found)) == set(FEW)
    assert len({pair.question.casefold() for pair in found}) == len({pair.passage for pair in found}) == len(found)
    assert all(120 <= len(pair.passage) <= 320 and pair.passage.isascii() for pair in found)
    assert {"click.utils.format_filename"} <= {pair.title for pair in found}


@pytest.mark.parametrize(("text", "expected"), [
    ("Return the *first* of ``many`` things.\n\nUse :func:`~a.b.other` where " + "x" * 120 + ".",
     ("Return the *first* of many things.", "Use a.b.other where " + "x" * 120 + ".")),
    ("Return the first of many.\n\n.. note::\n   Take care.\n\n>>> f(1)\n\n" + "word " * 40,
     ("Return the first of many.", None)),
    ("Too short.\n\n" + "word " * 40, None), ("Return the first of many.\n\nShort.", None),
    ("Return the first of many.", None),
])  # fmt: skip
def test_a_docstring_becomes_a_pair(text: str, expected: tuple[str, str | None] | None) -> None:
    """The summary is the question, the rest the passage, without marks and directives; too little is no pair."""
    found = documentation._pair("lib", "lib.mod", "name", text)
    if expected is None:
        assert found is None
    else:
        assert found is not None
        assert (found.question, found.title) == (expected[0], "lib.mod.name")
        assert found.passage == expected[1] if expected[1] else ".. note" not in found.passage


def test_long_texts_end_with_a_sentence() -> None:
    """A passage is cut after a sentence, or a word where there is no sentence."""
    assert documentation._cut("One sentence is here. " * 30).endswith("here.")
    assert documentation._cut("word " * 200).endswith("word")
    assert len(documentation._cut("word " * 200)) <= 320


def test_policies() -> None:
    """63 passages with two questions each; a passage's questions share its module; none is documentation."""
    found = policies.pairs()
    assert (len(found), len({pair.module for pair in found}), len({pair.passage for pair in found})) == (126, 63, 63)
    assert len({pair.question for pair in found}) == 126
    assert "What is the policy for overseas transfers?" in {pair.question for pair in found}


@pytest.mark.parametrize("block", ["== a | T\n? q", "== a\n? q\ntext", "a | T\n? q\ntext", "== a | T\ntext"])
def test_a_broken_policy_is_named(block: str) -> None:
    """A block without title, question or text is told by its first line."""
    with pytest.raises(ValueError, match=f"policy corpus: .*saw {block.splitlines()[0]!r}".replace("|", r"\|")):
        policies.pairs(f"# comment\n\n{block}\n")


def written(location: Path, pairs: list[Pair], day: date = DAY) -> pd.DataFrame:
    partitions.write_day(location, day, pairs)
    return pd.read_parquet(location / f"date={day}" / partitions.PART)


def test_partitions_are_whole_and_keep_the_contract(tmp_path: Path, few: list[Pair]) -> None:
    """A day's folder holds the rows and the marker, no temporary file; the contract accepts them."""
    frame = written(tmp_path, few)
    assert sorted(path.name for path in (tmp_path / f"date={DAY}").iterdir()) == ["_SUCCESS", partitions.PART]
    report = check(frame, contract.pairs, Partition.of_day(DAY), name="pairs", time_column="event_timestamp")
    report.raise_if_broken()
    assert report.rows == len(few)


def test_ids_name_their_text(tmp_path: Path, few: list[Pair]) -> None:
    """Tomorrow the same pairs have the same ids; a changed passage is another passage."""
    today, tomorrow = (written(tmp_path, few, DAY + timedelta(days=days)) for days in (0, 1))
    assert today["pair_id"].tolist() == tomorrow["pair_id"].tolist()
    changed = [Pair(**{**vars(few[0]), "passage": "Something else."}), *few[1:]]
    other = written(tmp_path, changed)
    assert len(set(other["passage_id"]) - set(today["passage_id"])) == 1
    assert today.equals(written(tmp_path, few))


BROKEN = {
    "one_text_for_each_passage_id": lambda rows: rows.assign(passage_id="0" * 16),
    "at_least_50_pairs": lambda rows: rows.head(49),
    "pair_id": lambda rows: pd.concat([rows, rows.head(1)], ignore_index=True),
    "question": lambda rows: rows.assign(question=" "),
    "passage": lambda rows: rows.assign(passage="x" * 5000),
    "source": lambda rows: rows.assign(source="hearsay"),
    "title": lambda rows: rows.drop(columns="title"),
    "event_timestamp": lambda rows: rows.assign(event_timestamp=rows["event_timestamp"] + timedelta(days=1)),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_partitions_are_refused(name: str) -> None:
    """Two texts for an id, a collection cut short, blank or endless texts: the report names the check."""
    rows = pd.DataFrame(partitions.rows_of(policies.pairs(), DAY))
    rows["event_timestamp"] = rows["event_timestamp"].astype("datetime64[us, UTC]")
    report = check(
        BROKEN[name](rows), contract.pairs, Partition.of_day(DAY), name="pairs", time_column="event_timestamp"
    )
    with pytest.raises(ContractViolationError, match=name):
        report.raise_if_broken()
