"""Rows as text: for a task's log and for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

_GAP = "  "
_WIDEST = 60  # characters of a cell; the last column is never cut
Row = dict[str, str]


def as_table(rows: Sequence[Row]) -> str:
    """A heading and a line per row, in columns; empty where there are no rows. All rows have the same columns."""
    return "\n".join(_lines(rows)) if rows else ""


def _lines(rows: Sequence[Row]) -> Iterator[str]:
    cells = [list(rows[0]), *(_cells(row) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for line in cells:
        yield _GAP.join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()


def _cells(row: Row) -> list[str]:
    # A reason may have several lines; a row has one.
    *others, last = (" ".join(value.split()) for value in row.values())
    return [each if len(each) <= _WIDEST else f"{each[: _WIDEST - 1]}…" for each in others] + [last]
