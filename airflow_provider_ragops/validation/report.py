"""What a contract check found, small enough for a log, an XCom or an artifact: counts and a few examples."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from airflow_provider_ragops.exceptions import ContractViolationError

MAX_EXAMPLES = 5
MAX_FAILURES = 50
MAX_TEXT = 120


@dataclass(frozen=True)
class CheckFailure:
    """One broken check: its column (or ``(row)``), how many values broke it, and the first few of them."""

    column: str
    check: str
    count: int
    examples: tuple[str, ...]

    def __str__(self) -> str:
        examples = f", for example {', '.join(self.examples)}" if self.examples else ""
        return f"{self.column}: {self.check} failed {self.count} time{'s' * (self.count != 1)}{examples}"


@dataclass(frozen=True)
class ContractReport:
    """All broken checks of one partition, at most :data:`MAX_FAILURES`; ``omitted`` says how many more."""

    schema: str
    partition: str
    rows: int
    failures: tuple[CheckFailure, ...] = ()
    omitted: int = 0

    @property
    def passed(self) -> bool:
        return not self.failures

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "passed": self.passed}

    def table(self) -> str:
        """Lay the failures out as text columns for the task log."""
        lines = [("column", "check", "count", "examples")]
        lines += [(f.column, f.check, str(f.count), ", ".join(f.examples)) for f in self.failures]
        widths = [max(len(line[column]) for line in lines) for column in range(3)]
        rows = ["  ".join([*map(str.ljust, line, widths), line[3]]) for line in lines]
        return "\n".join([*rows, *([f"and {self.omitted} more checks"] if self.omitted else [])])

    def raise_if_broken(self) -> None:
        """Raise :class:`ContractViolationError` naming each column, check, count and examples."""
        if self.passed:
            return
        more = f"; and {self.omitted} more checks" if self.omitted else ""
        raise ContractViolationError(
            f"partition {self.partition}",
            expected=f"{self.rows} rows that keep the contract {self.schema}",
            seen="; ".join(map(str, self.failures)) + more,
            action="Correct the data and write the partition again; nothing downstream has run.",
        )


def shorten(value: object) -> str:
    text = str(value)
    return text if len(text) <= MAX_TEXT else f"{text[: MAX_TEXT - 1]}…"
